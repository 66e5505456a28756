/**
 * Runs the conformance suite of stores on one of them and counts.
 *
 *   npm run test:stores -- sqlite [--json]
 *
 * The last line with --json is { suite, target, passed, failed, skipped: [{ case, reason }] }.
 */
import { runStoreSuite } from '../src/testing/suites/index.ts'
import { STORE_TARGETS } from '../test/stores/targets.ts'
import { serviceOf } from './services/catalogue.ts'
import { serviceUrls } from './services/index.ts'

const names = Object.keys(STORE_TARGETS)
const usage = `usage: npm run test:stores -- <${names.join('|')}> [--json]`

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

interface Case {
  readonly title: string
  run(context: { skip(reason: string): void }): Promise<void>
}

const cases: Case[] = []
let topic = ''
runStoreSuite({
  create: target.create,
  describe(title, body) {
    topic = title
    body()
  },
  it(title, run) {
    cases.push({ title: `${topic}: ${title}`, run })
  },
})

const skipped: { case: string; reason: string }[] = []
let passed = 0
let failed = 0
console.log(`The conformance suite on ${name} (${target.says}): ${cases.length} cases`)
for (const { title, run } of cases) {
  let reason: string | null = null
  try {
    await run({
      skip(why) {
        reason = why
      },
    })
    if (reason === null) passed += 1
    else skipped.push({ case: title, reason })
  } catch (error) {
    failed += 1
    console.log(
      `FAILED  ${title}\n${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
    )
  }
}
console.log(`${passed} passed, ${failed} failed, ${skipped.length} do not apply`)
for (const { case: title, reason } of skipped) console.log(`  ${title} — ${reason}`)
if (json) console.log(JSON.stringify({ suite: 'store', target: name, passed, failed, skipped }))
process.exit(failed > 0 ? 1 : 0)
