/**
 * Runs the conformance suite of publishers on one of them, at the real broker, and counts.
 *
 *   npm run test:publishers -- webhook [--json]
 *
 * The last line with --json is { suite, target, passed, failed, skipped: [{ case, reason }] }.
 */
import { runPublisherSuite } from '../src/testing/suites/index.ts'
import { PUBLISHER_TARGETS } from '../test/publishers/targets.ts'
import { type Counted, countCases, reportCounted } from './count-cases.ts'

const names = Object.keys(PUBLISHER_TARGETS)
const usage = `usage: npm run test:publishers -- <${names.join('|')}> [--json]`

const args = process.argv.slice(2)
if (args.includes('--help')) {
  console.log(usage)
  process.exit(0)
}
const json = args.includes('--json')
const [given, ...rest] = args.filter((arg) => arg !== '--json')
// The name of the subpath is good too.
const name = given?.replace(/^(?:posthaste\/)?publishers\//, '')
const target = name === undefined ? undefined : PUBLISHER_TARGETS[name]
if (name === undefined || target === undefined || rest.length > 0) {
  console.error(
    `${given === undefined ? 'Which publisher?' : `There is no ${[given, ...rest].join(' ')}.`}\n${usage}`,
  )
  process.exit(2)
}

const counted: Counted = { passed: 0, failed: 0, skipped: [] }
console.log(`The conformance suite of publishers: ${name}`)
await countCases(
  (options) => runPublisherSuite({ create: () => target.create(), skip: target.skip, ...options }),
  counted,
)
reportCounted(counted)
if (json) console.log(JSON.stringify({ suite: 'publisher', target: name, ...counted }))
process.exit(counted.failed > 0 ? 1 : 0)
