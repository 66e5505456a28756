/** `npm run test:stores`: the conformance suite of stores on one of them. */
import { runStoreSuite } from '../src/testing/suites/index.ts'
import { STORE_TARGETS } from '../test/stores/targets.ts'
import { type Counted, countCases, reportCounted } from './count-cases.ts'
import { serviceOf } from './services/catalogue.ts'
import { serviceUrls } from './services/index.ts'

const names = Object.keys(STORE_TARGETS)
const usage = `usage: npm run test:stores -- <${names.join('|')}> [--json]

Runs the conformance suite of stores on one of them and counts. A server that the environment does not name is started.

  --json   the last line on stdout is one JSON object: {suite, target, passed, failed, skipped: [{case, reason}]}

Exit code: 0 no case failed, 1 one did, 2 the command was not understood.`

const args = process.argv.slice(2)
if (args.includes('--help')) {
  console.log(usage)
  process.exit(0)
}
const json = args.includes('--json')
const [name, ...rest] = args.filter((arg) => arg !== '--json')
const target = name === undefined ? undefined : STORE_TARGETS[name]
if (name === undefined || target === undefined || rest.length > 0) {
  console.error(
    `${name === undefined ? 'Which store?' : `There is no ${[name, ...rest].join(' ')}.`}\n${usage}`,
  )
  process.exit(2)
}

// A server that the environment does not name is started.
if (target.service !== null) {
  const urls = await serviceUrls([target.service])
  process.env[serviceOf(target.service).variable] = urls[target.service]
}

console.log(`The conformance suite on ${name} (${target.says})`)
const counted: Counted = { passed: 0, failed: 0, skipped: [] }
await countCases((options) => runStoreSuite({ create: target.create, ...options }), counted)
reportCounted(counted)
if (json) console.log(JSON.stringify({ suite: 'store', target: name, ...counted }))
process.exit(counted.failed > 0 ? 1 : 0)
