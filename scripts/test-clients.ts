/**
 * Runs the conformance suite of clients on one of them, on every database that it supports, and counts.
 *
 *   npm run test:clients -- kysely [--json]
 *
 * The last line with --json is { suite, target, databases, passed, failed, skipped: [{ case, reason }] }.
 */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { runClientSuite } from '../src/testing/suites/index.ts'
import { dropTables, serverOf } from '../test/clients/databases.ts'
import { CLIENT_TARGETS } from '../test/clients/targets.ts'
import { type Counted, countCases, reportCounted } from './count-cases.ts'
import { installNodes, nodeOfMajor } from './packaged-nodes.ts'
import { ROOT } from './run.ts'
import { serviceOf } from './services/catalogue.ts'
import { serviceUrls } from './services/index.ts'

const names = Object.keys(CLIENT_TARGETS)
const usage = `usage: npm run test:clients -- <${names.join('|')}> [--json]`

const args = process.argv.slice(2)
if (args.includes('--help')) {
  console.log(usage)
  process.exit(0)
}
const json = args.includes('--json')
const [given, ...rest] = args.filter((arg) => arg !== '--json')
// The name of the subpath is good too.
const name = given?.replace(/^(?:posthaste\/)?clients\//, '')
const target = name === undefined ? undefined : CLIENT_TARGETS[name]
if (name === undefined || target === undefined || rest.length > 0) {
  console.error(
    `${given === undefined ? 'Which client?' : `There is no ${[given, ...rest].join(' ')}.`}\n${usage}`,
  )
  process.exit(2)
}

// A child that is on the right Node already goes on below.
if (target.node !== null && process.versions.node.split('.')[0] !== target.node) {
  const node = nodeOfMajor(installNodes(), target.node)
  console.log(`${name} is tested under Node ${node.version}`)
  const script = fileURLToPath(import.meta.url)
  const { status } = spawnSync(node.path, ['--import', 'tsx', script, ...args], {
    stdio: 'inherit',
    cwd: ROOT,
  })
  process.exit(status ?? 1)
}

// A server that the environment does not name is started.
const servers = target.databases.flatMap((database) => serverOf(database) ?? [])
const urls = await serviceUrls(servers)
for (const server of servers) process.env[serviceOf(server).variable] = urls[server]

const counted: Counted = { passed: 0, failed: 0, skipped: [] }
for (const database of target.databases) {
  console.log(`The conformance suite of clients: ${name} on ${database}`)
  await countCases(
    (options) =>
      runClientSuite({
        create: () => target.create(database),
        skip: target.skip[database] ?? [],
        ...options,
      }),
    counted,
    `${database}: `,
  )
}
await dropTables(target.databases)
reportCounted(counted)
const { databases } = target
if (json) console.log(JSON.stringify({ suite: 'client', target: name, databases, ...counted }))
process.exit(counted.failed > 0 ? 1 : 0)
