/** Where an example is tried: a copy of it, with the packed package, away from the sources. */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { PRISMA_OFFLINE } from '../prisma.ts'
import { ROOT } from '../run.ts'

interface Manifest {
  readonly version?: string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
}

const readManifest = (path: string): Manifest => JSON.parse(readFileSync(path, 'utf8')) as Manifest

/** The tarball that a user would install. */
export const pack = (folder: string): string => {
  const packed = execFileSync('npm', ['pack', '--json', '--pack-destination', folder], {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const [{ filename }] = JSON.parse(packed) as [{ filename: string }]
  return join(folder, filename)
}

export const copyExample = (name: string, folder: string): string => {
  const home = join(folder, name)
  const skip = /\/(node_modules|dist|generated)$|\.db(-\w+)?$/
  cpSync(join(ROOT, 'examples', name), home, { recursive: true, filter: (path) => !skip.test(path) })
  return home
}

/** `npm install`, from the registry. */
export const install = (home: string, tarball: string): void => {
  const path = join(home, 'package.json')
  const manifest = readManifest(path)
  const dependencies = { ...manifest.dependencies, posthaste: `file:${tarball}` }
  writeFileSync(path, JSON.stringify({ ...manifest, dependencies }))
  execFileSync('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: home,
    env: { ...process.env, ...PRISMA_OFFLINE },
    stdio: 'inherit',
  })
}

/**
 * The same without a network: the packages that are installed here, if they are what the example asks for, and ours
 * unpacked. Ours is a real folder, so that it finds its peers where a user's would.
 */
export const link = (home: string, tarball: string): void => {
  const { dependencies, devDependencies } = readManifest(join(home, 'package.json'))
  const modules = join(home, 'node_modules')
  for (const [name, wanted] of Object.entries({ ...dependencies, ...devDependencies })) {
    const target = join(modules, name)
    mkdirSync(dirname(target), { recursive: true })
    if (name === 'posthaste') {
      mkdirSync(target)
      execFileSync('tar', ['-xzf', tarball, '-C', target, '--strip-components=1'])
      continue
    }
    const source = join(ROOT, 'node_modules', name)
    const { version } = readManifest(join(source, 'package.json'))
    if (version !== wanted)
      throw new Error(`it wants ${name} ${wanted}, and ${version} is what is tested here`)
    symlinkSync(source, target)
  }
  symlinkSync(join(ROOT, 'node_modules', '.bin'), join(modules, '.bin'))
}
