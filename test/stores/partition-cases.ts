/** What is true of partitions on every server that has them, and the words to say it. */
import { expect, it } from 'vitest'
import { createIdGenerator } from '../../src/core/model/index.ts'
import type { PartitionReport, PartitionRequest } from '../../src/core/spi/index.ts'
import type { Published } from '../../src/testing/suites/publishing-fixture.ts'
import type { StoreFixture } from '../../src/testing/suites/store-fixture.ts'
import { until } from './until.ts'

export const DAY_MS = 86_400_000

/** Cleaning removes rows of the tail alone; the others go with their partition. */
export const GO_WITH_PARTITIONS = [
  'finished deliveries past their retention go, and their event with the last of them',
  'dead deliveries have a retention of their own, or none',
  'discarded deliveries are counted apart',
  '[42] one step of cleaning is bounded and says that there is more',
  'a step with a shorter retention passes over nothing that an earlier step had to leave',
  'a settle that is repeated after the cleaning is lost and changes nothing',
  'what not every destination is reconciled past stays, or its event would look as if it was missed',
  'an event that nobody heard of yet stays until every destination is reconciled past it',
].map((test) => ({ test, reason: 'finished rows go with their partition' }))

/** Ids as they were made at another time. */
export const idsFrom = (ms: number): (() => string) =>
  createIdGenerator({
    wallNow: () => ms,
    randomBytes: (size) => crypto.getRandomValues(new Uint8Array(size)),
  })

/** An event and its delivery with ids of another time. */
export const publishAt = async (t: StoreFixture, ms: number): Promise<Published> => {
  const newId = idsFrom(ms)
  const event = t.event({ id: newId() })
  const delivery = { ...t.delivery(event), id: newId() }
  await t.insert({ events: [event], deliveries: [delivery] })
  return { event, delivery }
}

export const maintain = (t: StoreFixture, over: Partial<PartitionRequest> = {}): Promise<PartitionReport> =>
  t.store.maintenance.partitions!({
    lookAheadMs: 30 * DAY_MS,
    doneOlderThanMs: 7 * DAY_MS,
    deadOlderThanMs: null,
    lockTimeoutMs: 100,
    ...over,
  })

/** A period that is long past. */
interface OldPeriod extends Published {
  readonly ms: number
  /** Names of its partitions. */
  readonly events: string
  readonly finished: string
}

/** What each server does in its own way. */
export interface PartitionHands {
  readonly t: StoreFixture
  /** Makes the partitions of a period that is long past, with an event and its delivery in them. */
  oldPeriod(): Promise<OldPeriod>
  /** Whatever has finished has done so eight days ago. */
  ageFinished(): Promise<unknown>
  deleteDeliveries(): Promise<unknown>
  countOf(table: string): Promise<number>
  hasTails(): Promise<boolean>
  /** Somebody waits for the lock of a table. */
  lockIsAwaited(): Promise<boolean>
  /** A transaction that has read events, until it is told to end. */
  readEvents(): Promise<{ end(): Promise<void> }>
}

export const dropCases = (hands: () => PartitionHands): void => {
  it('when everything in them has finished before the retention, with the attempts', async () => {
    const { t, oldPeriod, ageFinished, countOf } = hands()
    const me = await t.worker()
    const old = await oldPeriod()
    await t.retry(old, me.right, { delayMs: 0 })
    await t.done(old, me.right)
    await ageFinished()
    const report = await maintain(t)
    expect(report.dropped).toEqual([old.finished, old.events])
    expect(await t.store.inspection.event(old.event.id)).toBeNull()
    expect(await countOf('attempts')).toBe(0)
    const [counts] = await t.store.inspection.counts()
    expect(counts?.counts.done).toBe(0)
    await t.publish()
  })

  it('not while a destination may still take something in them for missed', async () => {
    const { t, oldPeriod, ageFinished } = hands()
    const me = await t.worker()
    await t.declare('alpha')
    const old = await oldPeriod()
    const { seq } = await t.readOne(old)
    await t.done(old, me.right)
    await ageFinished()
    const first = await maintain(t)
    expect(first.dropped).toEqual([])
    expect(first.kept).toContainEqual({ name: old.finished, reason: expect.stringContaining('reconciled') })
    await t.store.registry.reconcile('alpha', [], seq)
    expect((await maintain(t)).dropped).toEqual([old.finished, old.events])
  })

  it('not while a delivery is unfinished or dead', async () => {
    const { t, oldPeriod } = hands()
    const me = await t.worker()
    const old = await oldPeriod()
    const first = await maintain(t)
    expect(first.dropped).toEqual([old.finished])
    expect(first.kept).toEqual([{ name: old.events, reason: expect.stringContaining('unfinished or dead') }])
    await t.dead(old, me.right)
    expect((await maintain(t)).dropped).toEqual([])
    expect((await t.detail(old)).deliveries.length).toBe(1)
  })

  it('not while a delivery has finished within the retention, nor the events that it is about', async () => {
    const { t, oldPeriod } = hands()
    const me = await t.worker()
    const old = await oldPeriod()
    await t.done(old, me.right)
    const { dropped, kept } = await maintain(t)
    expect(dropped).toEqual([])
    expect(kept.map(({ name }) => name)).toEqual([old.finished, old.events])
  })

  it('not while a transaction writes into them, which then commits late', async () => {
    const { t, oldPeriod, deleteDeliveries } = hands()
    const old = await oldPeriod()
    await deleteDeliveries()
    const late = t.event({ id: idsFrom(old.ms)() })
    const open = await t.begin()
    await t.insertIn(open.tx, { events: [late], deliveries: [t.delivery(late)] })
    const first = await maintain(t, { lockTimeoutMs: 20 })
    expect(first.kept).toEqual([{ name: old.events, reason: expect.stringContaining('transactions') }])
    await open.commit()
    const second = await maintain(t)
    expect(second.kept).toEqual([{ name: old.events, reason: expect.stringContaining('unfinished') }])
    expect((await t.read()).fresh.map((row) => row.event?.id)).toEqual([late.id])
  })

  it('not when what needs them is committed while their lock is waited for', async () => {
    const { t, oldPeriod, deleteDeliveries, lockIsAwaited } = hands()
    const old = await oldPeriod()
    await deleteDeliveries()
    const late = t.event({ id: idsFrom(old.ms)() })
    const open = await t.begin()
    await t.insertIn(open.tx, { events: [late], deliveries: [t.delivery(late)] })
    const maintaining = maintain(t, { lockTimeoutMs: 20_000 })
    await until('the lock is waited for', lockIsAwaited)
    await open.commit()
    expect((await maintaining).kept).toEqual([
      { name: old.events, reason: expect.stringContaining('unfinished') },
    ])
    expect((await t.read()).fresh.map((row) => row.event?.id)).toEqual([late.id])
  })

  it('and never the tails, which are cleaned row by row', async () => {
    const { t, ageFinished, hasTails } = hands()
    const me = await t.worker()
    const event = t.event({ id: 'f47ac10b-58cc-4372-a567-0e02b2c3d479' })
    const delivery = { ...t.delivery(event), id: 'f47ac10b-58cc-4372-a567-0e02b2c3d480' }
    await t.insert({ events: [event], deliveries: [delivery] })
    await t.done({ event, delivery }, me.right)
    await ageFinished()
    expect((await maintain(t)).dropped).toEqual([])
    const cleaned = await t.store.maintenance.cleanup({
      doneOlderThanMs: 7 * DAY_MS,
      deadOlderThanMs: null,
      dedupOlderThanMs: 7 * DAY_MS,
      limit: 100,
    })
    expect([cleaned.done, cleaned.events]).toEqual([1, 1])
    expect(await hasTails()).toBe(true)
  })

  it('[45] without keeping a publisher waiting behind a lock that cannot be had', async () => {
    const { t, oldPeriod, deleteDeliveries, readEvents } = hands()
    const old = await oldPeriod()
    await deleteDeliveries()
    const reader = await readEvents()
    const maintaining = maintain(t, { lockTimeoutMs: 50 })
    // The reader has its lock to the end, so whatever is published meanwhile did not wait for it.
    let published = 0
    let done = false
    void maintaining.finally(() => {
      done = true
    })
    while (!done) {
      await t.publish()
      published += 1
    }
    const { kept } = await maintaining
    expect(kept.map(({ name }) => name)).toContain(old.events)
    expect(published).toBeGreaterThan(0)
    await reader.end()
  })
}
