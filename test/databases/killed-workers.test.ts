/** Four processes on one server, of which one is killed every second and replaced, while events are published. */
import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { isIn } from '../parts.ts'
import { serverUrl } from '../stores/servers.ts'
import { killWorker, startWorker } from './crew/crew.ts'
import { arrived, judge } from './crew/ledger.ts'
import { type Place, storeAt } from './crew/stores.ts'

const EVENTS = Number(process.env.POSTHASTE_TEST_EVENTS ?? 1_500)
const KEYS = 50
const WRITERS = 5
const WORKERS = 4
const LEASE_MS = 2_000
const KILL_EVERY_MS = 1_000

const place = (kind: Place['kind'], url: string): Place => ({
  kind,
  url,
  name: `crew_${randomBytes(6).toString('hex')}`,
})

const places: readonly Place[] = [
  ...(isIn('most')
    ? [place('postgres', serverUrl('postgres-new')), place('mariadb', serverUrl('mariadb'))]
    : []),
  ...(isIn('rest') ? [place('mysql', serverUrl('mysql'))] : []),
]

/** Each writer has keys of its own, so the order of a key is the order in which it commits. */
const publishAll = async (place: Place): Promise<void> => {
  const outbox = createOutbox({ store: storeAt(place), destinations: { sink: { events: ['*'] } }, serve: [] })
  await outbox.start()
  const write = async (writer: number): Promise<void> => {
    for (let n = 0; n < EVENTS; n += 1) {
      if ((n % KEYS) % WRITERS !== writer) continue
      await outbox.transaction((tx) =>
        outbox.publish(tx, { type: 'tick', payload: { n }, key: `k${n % KEYS}` }),
      )
    }
  }
  await Promise.all(Array.from({ length: WRITERS }, (_, writer) => write(writer)))
  await outbox.close()
}

it.each(places)(
  '[13][14][18][21][23][29][49] on $kind nothing is lost, keys keep their order, and only what was in flight comes twice',
  { timeout: 600_000 },
  async (place) => {
    const folder = mkdtempSync(join(tmpdir(), 'posthaste-crew-'))
    const ledger = join(folder, 'ledger')
    writeFileSync(ledger, '')
    const setUp = createOutbox({ store: storeAt(place), migrate: true })
    await setUp.start()
    const killed: number[] = []
    const task = { place, ledger, laneLeaseMs: LEASE_MS }
    const workers = await Promise.all(Array.from({ length: WORKERS }, () => startWorker(task)))
    let publishing = true
    const published = publishAll(place).finally(() => {
      publishing = false
    })
    while (publishing || arrived(ledger) < EVENTS) {
      await pause(KILL_EVERY_MS)
      const victim = workers.shift() as ChildProcess
      await killWorker(victim)
      killed.push(victim.pid as number)
      workers.push(await startWorker(task))
    }
    await published
    for (const worker of workers) worker.kill('SIGKILL')
    await setUp.close()
    const verdict = judge(ledger, EVENTS, KEYS, [...killed, ...workers.map(({ pid }) => pid as number)])
    expect(killed.length).toBeGreaterThan(1)
    expect(verdict).toMatchObject({ lost: [], disorder: [] })
    expect(verdict.duplicates).toBeLessThanOrEqual(verdict.inFlight)
    rmSync(folder, { recursive: true })
  },
)
