/**
 * `npm run bench:takeover`: how long the lanes of a process that was killed stay without an owner. Two processes
 * share the lanes; one is killed, an event is published for each of many keys, and the time ends when the last of
 * them was delivered by the other one.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { serviceUrls } from '../scripts/services/index.ts'
import { createOutbox, type Draft } from '../src/index.ts'
import { killWorker, startWorker } from '../test/databases/crew/crew.ts'
import { arrived } from '../test/databases/crew/ledger.ts'
import { type Place, storeAt } from '../test/databases/crew/stores.ts'
import { median } from './measure.ts'
import { tableOf } from './show.ts'

const HELP = `npm run bench:takeover -- [--rounds N] [--json]

Kills one of two processes and measures until the other one has delivered what was published since, on PostgreSQL,
MariaDB and MySQL, which are started when they do not run. The lease of lanes is two seconds.

  --rounds N   kills on each server; default 5
  --json       the figures as one JSON object in the last line
  --help       this text

Exit code: 0 each takeover took at most the lease and one second, 1 it did not, 2 the command was not understood.
`

const LEASE_MS = 2_000
const ALLOWED_MS = LEASE_MS + 1_000
/** Enough for every one of the 64 lanes to have some. */
const KEYS = 500
const DEADLINE_MS = 60_000

const parse = () => {
  try {
    const options = {
      rounds: { type: 'string' },
      json: { type: 'boolean' },
      help: { type: 'boolean' },
    } as const
    const { values } = parseArgs({ options, strict: true })
    const rounds = Number(values.rounds ?? 5)
    if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds must be a whole number from 1 on')
    return { ...values, rounds }
  } catch (error) {
    console.error(`${(error as Error).message.split('. ')[0]}\n\n${HELP}`)
    process.exit(2)
  }
}

const { json, help, rounds } = parse()
if (help) {
  process.stdout.write(HELP)
  process.exit(0)
}

/** One of each key. */
const eventsOf = (round: number): readonly Draft[] =>
  Array.from({ length: KEYS }, (_, k) => ({ type: 'tick', key: `k${k}`, payload: { n: round * KEYS + k } }))

const untilArrived = async (ledger: string, count: number): Promise<void> => {
  const deadline = performance.now() + DEADLINE_MS
  while (arrived(ledger) < count) {
    if (performance.now() > deadline) throw new Error(`only ${arrived(ledger)} of ${count} were delivered`)
    await sleep(5)
  }
}

const measure = async (place: Place): Promise<readonly number[]> => {
  const folder = mkdtempSync(join(tmpdir(), 'posthaste-takeover-'))
  const ledger = join(folder, 'ledger')
  writeFileSync(ledger, '')
  const task = { place, ledger, laneLeaseMs: LEASE_MS }
  const outbox = createOutbox({
    store: storeAt(place),
    destinations: { sink: { events: ['*'] } },
    serve: [],
    migrate: true,
  })
  await outbox.start()
  let victim = await startWorker(task)
  let other = await startWorker(task)
  const took: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    // Lanes are shared out in the course of two renewals.
    await sleep(LEASE_MS)
    await killWorker(victim)
    const killedAt = performance.now()
    await outbox.transaction((tx) => outbox.publishMany(tx, eventsOf(round)))
    await untilArrived(ledger, (round + 1) * KEYS)
    took.push(Math.round(performance.now() - killedAt))
    victim = other
    other = await startWorker(task)
  }
  await Promise.all([killWorker(victim), killWorker(other)])
  await outbox.close()
  rmSync(folder, { recursive: true })
  return took
}

const SERVERS = { 'postgres-new': 'postgres', mariadb: 'mariadb', mysql: 'mysql' } as const

const urls = await serviceUrls(Object.keys(SERVERS) as (keyof typeof SERVERS)[])
const figures: Record<string, { median: number; max: number; runs: readonly number[] }> = {}
for (const [server, kind] of Object.entries(SERVERS)) {
  const url = urls[server as keyof typeof SERVERS]
  const runs = await measure({ kind, url, name: `takeover_${randomBytes(4).toString('hex')}` })
  figures[kind] = { median: median(runs), max: Math.max(...runs), runs }
}
const held = Object.values(figures).every(({ max }) => max <= ALLOWED_MS)
console.log(
  tableOf([
    ['server', 'median ms', 'longest ms', `allowed ${ALLOWED_MS} ms`],
    ...Object.entries(figures).map(([kind, { median, max }]) => [
      kind,
      String(median),
      String(max),
      max <= ALLOWED_MS ? 'held' : 'NOT HELD',
    ]),
  ]),
)
if (json) console.log(JSON.stringify({ leaseMs: LEASE_MS, allowedMs: ALLOWED_MS, held, takeover: figures }))
process.exitCode = held ? 0 : 1
