/** Real processes on one SQLite file, killed, stopped and terminated. */
import { describe, expect, it } from 'vitest'
import type { DeliveryView } from '../../src/index.ts'
import { Fleet, type LedgerLine } from './processes/fleet.ts'

const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n)

/** Deliveries by the number in their payload. */
const byNumber = async (fleet: Fleet): Promise<Map<number, DeliveryView>> => {
  const outbox = fleet.world.outbox()
  const found = new Map<number, DeliveryView>()
  const { deliveries } = await outbox.inspect.list({ limit: 10_000, order: 'oldest' })
  for (const delivery of deliveries) {
    const detail = await outbox.inspect.event(delivery.eventId)
    found.set((JSON.parse(detail?.event.data as string) as { n: number }).n, delivery)
  }
  await outbox.close()
  return found
}

const duplicates = (ledger: readonly LedgerLine[]): number[] => {
  const begun = ledger.filter(({ what }) => what === 'begin').map(({ n }) => n)
  return begun.filter((n, i) => begun.indexOf(n) !== i)
}

describe('a process that is killed', () => {
  it('[4] between commit and hot dispatch has lost nothing: somebody else delivers', async () => {
    await using fleet = new Fleet()
    const survivor = await fleet.worker({ start: false }).ready()
    const publisher = await fleet.worker({ dieAfterCommit: true }).ready()
    publisher.send({ kind: 'publish', from: 0, to: 1, keys: 0 })
    expect(await publisher.exited).toEqual({ code: null, signal: 'SIGKILL' })
    expect(fleet.heard()).toEqual([])
    survivor.kill('SIGTERM')
    await survivor.exited
    const next = await fleet.worker().ready()
    await next.until(() => next.settled(0, 'done'))
    expect(fleet.heard()).toEqual([0])
    expect(duplicates(fleet.ledger())).toEqual([])
  })

  it('[18] in mid-flight loses nothing, and only what was in flight is delivered twice', async () => {
    await using fleet = new Fleet()
    const victim = await fleet.worker({ handlerMs: 20 }).ready()
    const survivor = await fleet.worker({ handlerMs: 5 }).ready()
    const count = 200
    survivor.send({ kind: 'publish', from: 0, to: count, keys: 20 })
    await victim.until(() => victim.numbers('heard').length >= 20)
    victim.kill('SIGKILL')
    await victim.exited
    const states = await byNumber(fleet)
    const begunByVictim = fleet.ledger().filter(({ what, pid }) => what === 'begin' && pid === victim.pid)
    const inFlight = begunByVictim.map(({ n }) => n).filter((n) => states.get(n)?.status !== 'done')
    await survivor.until(() => fleet.heard().length === count)
    expect(fleet.heard()).toEqual(upTo(count))
    const twice = duplicates(fleet.ledger())
    expect(inFlight).toEqual(expect.arrayContaining(twice))
    expect(new Set(twice).size).toBe(twice.length)
    expect(twice.length).toBeLessThanOrEqual(inFlight.length)
    // First deliveries of every key are in order, whoever made them.
    for (let key = 0; key < 20; key += 1) {
      const first = [
        ...new Set(
          fleet
            .ledger()
            .filter(({ what, n }) => what === 'begin' && n % 20 === key)
            .map(({ n }) => n),
        ),
      ]
      expect(first).toEqual([...first].sort((a, b) => a - b))
    }
  })

  it('[4] while it writes has stored every event together with its data, or neither', async () => {
    await using fleet = new Fleet()
    for (let round = 0; round < 2; round += 1) {
      const writer = await fleet.worker({ start: false }).ready()
      writer.send({ kind: 'publish', from: round * 10_000, to: round * 10_000 + 10_000, keys: 0 })
      await writer.until(() => writer.numbers('published').length >= 20)
      writer.kill('SIGKILL')
      await writer.exited
      const outbox = fleet.world.outbox()
      const rows = await outbox.transaction((tx) =>
        (tx as { prepare(sql: string): { get(): { c: number } } })
          .prepare('SELECT count(*) AS c FROM business')
          .get(),
      )
      const { deliveries } = await outbox.inspect.list({ limit: 10_000 })
      expect(rows.c).toBe(deliveries.length)
      expect(rows.c).toBeGreaterThanOrEqual(writer.numbers('published').length)
      await outbox.close()
    }
  })

  it('[70] by the same event each time buries that event at its limit, and not its neighbours', async () => {
    await using fleet = new Fleet()
    const writer = await fleet.worker({ start: false }).ready()
    writer.send({ kind: 'publish', from: 0, to: 12, keys: 0 })
    await writer.until(() => writer.numbers('published').length === 12)
    writer.kill('SIGTERM')
    expect(await writer.exited).toMatchObject({ code: 0 })
    let deaths = 0
    for (; deaths < 8; deaths += 1) {
      const worker = fleet.worker({ poison: 5, maxAttempts: 1, concurrency: 2 })
      await fleet.bell.until(() => !worker.isAlive || worker.settled(5, 'dead'))
      if (!worker.isAlive) continue
      await worker.until(() => fleet.heard().length === 11)
      worker.kill('SIGTERM')
      await worker.exited
      break
    }
    const states = await byNumber(fleet)
    expect(states.get(5)).toMatchObject({ status: 'dead' })
    expect(deaths).toBeLessThanOrEqual(6)
    for (const n of upTo(12).filter((n) => n !== 5)) expect(states.get(n)?.status, `event ${n}`).toBe('done')
  })
})

describe('a process that stands still', () => {
  it('[14] past its lease is a zombie afterwards: it settles nothing and starts anew', async () => {
    await using fleet = new Fleet()
    const zombie = await fleet.worker({ stopAt: 3, concurrency: 1 }).ready()
    zombie.send({ kind: 'publish', from: 0, to: 4, keys: 1 })
    await zombie.until(() => zombie.numbers('begun').includes(2))
    const successor = await fleet.worker().ready()
    await successor.until(() => successor.settled(3, 'done'))
    const before = (await byNumber(fleet)).get(3)
    zombie.kill('SIGCONT')
    await zombie.until(() => zombie.said.some((it) => it.kind === 'warned' && it.message.includes('fenced')))
    expect((await byNumber(fleet)).get(3)).toEqual(before)
    expect(before?.status).toBe('done')
    zombie.send({ kind: 'publish', from: 4, to: 40, keys: 0 })
    await zombie.until(() => fleet.heard().length === 40)
    expect(zombie.settled(3, 'done')).toBe(false)
    // Twice came only what it had sent and not durably settled when it stopped.
    const twice = duplicates(fleet.ledger())
    expect(twice).toContain(3)
    for (const n of twice) expect(zombie.settled(n, 'done'), `event ${n}`).toBe(false)
  })
})

describe('SIGTERM', () => {
  it('[71] stops, drains, releases and exits with 0; others go on at once', async () => {
    await using fleet = new Fleet()
    const worker = await fleet.worker({ hold: true, concurrency: 2 }).ready()
    worker.send({ kind: 'publish', from: 0, to: 10, keys: 0 })
    await worker.until(
      () => worker.numbers('begun').length === 2 && worker.numbers('published').length === 10,
    )
    worker.kill('SIGTERM')
    await worker.until(() => worker.said.some(({ kind }) => kind === 'stopping'))
    worker.send({ kind: 'go' })
    expect(await worker.exited).toEqual({ code: 0, signal: null })
    const states = [...(await byNumber(fleet)).values()]
    expect(states.filter(({ status }) => status === 'done')).toHaveLength(2)
    expect(states.filter(({ status, attempts }) => status === 'pending' && attempts === 0)).toHaveLength(8)
    const next = await fleet.worker().ready()
    await next.until(() => fleet.heard().length === 10)
    expect(duplicates(fleet.ledger())).toEqual([])
  })

  it('[71] again and again, under load, never loses and never repeats', async () => {
    await using fleet = new Fleet()
    const writer = await fleet.worker({ start: false }).ready()
    writer.send({ kind: 'publish', from: 0, to: 300, keys: 7 })
    for (let round = 0; round < 3; round += 1) {
      const worker = await fleet.worker({ handlerMs: 2 }).ready()
      await worker.until(() => worker.numbers('heard').length >= 20)
      worker.kill('SIGTERM')
      expect(await worker.exited).toEqual({ code: 0, signal: null })
    }
    const last = await fleet.worker().ready()
    await last.until(() => fleet.heard().length === 300)
    expect(fleet.heard()).toEqual(upTo(300))
    expect(duplicates(fleet.ledger())).toEqual([])
  })
})
