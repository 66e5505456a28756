/**
 * Tests under other Nodes than the one that runs this.
 *
 *   install   makes sure that they are there, and fails when one is not
 *   test      installs; runs test/nodes under Node 24 (node:sqlite and better-sqlite3 need more than Node 20);
 *             then imports the packed package as ESM and as CommonJS on every Node that we support
 */
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { installNodes, nodeOfMajor, type PackagedNode } from './packaged-nodes.ts'
import { heading, mustRun, ROOT } from './run.ts'

const LOWEST_MAJOR = '20'
const TEST_MAJOR = '24'

const lowestNode = (): { readonly version: string; readonly path: string }[] => {
  const version = process.versions.node
  if (version.startsWith(`${LOWEST_MAJOR}.`)) return [{ version, path: process.execPath }]
  const text = `This is Node ${version}; Node ${LOWEST_MAJOR}, the lowest supported one, is not tested by this run.`
  console.error(text)
  if (process.env.CI) process.exit(1)
  return []
}

/** What a user gets from npm, in a folder with nothing else: no source, no peers. */
const smoke = (nodes: readonly PackagedNode[]): void => {
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
    for (const { path } of [...lowestNode(), ...nodes]) mustRun(path, ['smoke.mjs'], consumer)
  } finally {
    rmSync(consumer, { recursive: true, force: true })
  }
}

const test = (): void => {
  const nodes = installNodes()
  const node = nodeOfMajor(nodes, TEST_MAJOR)
  heading(`test/nodes under Node ${node.version}`)
  const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs')
  mustRun(node.path, [vitest, 'run', '--config', 'test/nodes/vitest.config.ts'])
  smoke(nodes)
}

const commands: Readonly<Record<string, () => void>> = { install: installNodes, test }
const command = commands[process.argv[2] ?? '']
if (command === undefined) {
  console.error(`Usage: node --import tsx scripts/nodes.ts ${Object.keys(commands).join(' | ')}`)
  process.exit(2)
}
command()
