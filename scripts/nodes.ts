/**
 * Tests under other Nodes than the one that runs this.
 *
 *   install   makes sure that they are there, and fails when one is not
 *   test      installs, and runs test/nodes under Node 24 (node:sqlite and better-sqlite3 need more than Node 20)
 */
import { join } from 'node:path'
import { installNodes, nodeOfMajor } from './packaged-nodes.ts'
import { heading, mustRun, ROOT } from './run.ts'

const TEST_MAJOR = '24'

const test = (): void => {
  const nodes = installNodes()
  const node = nodeOfMajor(nodes, TEST_MAJOR)
  heading(`test/nodes under Node ${node.version}`)
  const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs')
  mustRun(node.path, [vitest, 'run', '--config', 'test/nodes/vitest.config.ts'])
}

const commands: Readonly<Record<string, () => void>> = { install: installNodes, test }
const command = commands[process.argv[2] ?? '']
if (command === undefined) {
  console.error(`Usage: node --import tsx scripts/nodes.ts ${Object.keys(commands).join(' | ')}`)
  process.exit(2)
}
command()
