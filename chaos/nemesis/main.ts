/**
 * The nemesis, a process of its own: it starts the crew, breaks things by a schedule that follows from the seed,
 * and when its time is over it heals everything and waits until all is delivered.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Random } from '../../simulator/random.ts'
import { openHand } from '../databases/arena.ts'
import { type FaultLine, FILES, Log } from '../logs.ts'
import { brokerFaults } from './broker-faults.ts'
import { findClock } from './clock.ts'
import { Crew } from './crew.ts'
import { databaseFaults } from './database-faults.ts'
import { type Fault, Missed, type World } from './fault.ts'
import type { FromNemesis, NemesisTask } from './messages.ts'
import { processFaults } from './process-faults.ts'
import { startSampling } from './samples.ts'

const DRAIN_WITHIN_MS = 90_000
const LOOK_EVERY_MS = 200
/** Traffic before the first fault, so that there is something to break. */
const WARM_UP_MS = 1_500

const task = JSON.parse(process.argv[2] ?? '{}') as NemesisTask
const log = new Log(task.folder, FILES.faults)
const crew = new Crew(task)
let numbers = 0
let struck = 0
let phase: 'faults' | 'draining' | 'over' = 'faults'
const doing = new Set<string>()

process.on('exit', () => crew.killAll())
// Whoever started us is gone, so nobody wants the rest.
process.on('disconnect', () => process.exit(1))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))

const tell = (message: FromNemesis): void => void process.send?.(message)
const note = (line: Omit<FaultLine, 'at'>): void => log.write([{ at: Date.now(), ...line }], true)

const strike = async (fault: Fault, world: World): Promise<void> => {
  const { kind } = fault
  const aimed = fault.aim(world)
  if (aimed === null) return
  const { hits, detail, act } = aimed
  const id = ++numbers
  note({ id, kind, what: 'begin', hits, ...(detail === undefined ? {} : { detail }) })
  doing.add(kind)
  try {
    await act()
    struck += 1
    note({ id, kind, what: 'end', hits })
  } catch (error) {
    if (!(error instanceof Missed)) throw error
    note({ id, kind, what: 'missed', hits, detail: error.message })
  } finally {
    doing.delete(kind)
  }
}

/** Every kind in turn, in an order that chance decides anew each time. */
function* deal(faults: readonly Fault[], random: Random): Generator<Fault> {
  while (faults.length > 0) {
    const left = [...faults]
    while (left.length > 0) yield* left.splice(random.whole(0, left.length - 1), 1)
  }
}

/** Short ones, which may happen while something else does. */
const BESIDE: readonly string[] = ['kill-worker', 'kill-producer', 'kill-connections', 'stop-worker']

const breakThings = async (world: World, faults: readonly Fault[], endsAt: number): Promise<void> => {
  const beside = faults.filter(({ kind }) => BESIDE.includes(kind))
  for (const fault of deal(faults, world.random)) {
    await pause(world.random.whole(...task.regime.pauseMs))
    if (performance.now() >= endsAt) return
    const second = world.random.chance(0.3) ? world.random.pick(beside) : null
    const both = second === null || second === fault ? [fault] : [fault, second]
    await Promise.all(both.map((each) => strike(each, world)))
    await crew.revive()
  }
}

/** Long enough for everybody to notice that it is back. */
const BROKER_PAUSE_MS = [2_000, 6_000] as const

/** Beside everything else, and by a schedule of its own, so that neither changes the other's. */
const breakBroker = async (world: World, faults: readonly Fault[], endsAt: number): Promise<void> => {
  const own = { ...world, random: new Random(task.seed, 'nemesis of the broker') }
  for (const fault of deal(faults, own.random)) {
    await pause(own.random.whole(...BROKER_PAUSE_MS))
    if (performance.now() >= endsAt) return
    await strike(fault, own)
  }
}

const drained = async (world: World): Promise<boolean> => {
  const deadline = performance.now() + DRAIN_WITHIN_MS
  while (performance.now() < deadline) {
    const left = await world.hand.unfinished().catch(() => Number.NaN)
    if (left === 0) return true
    await pause(LOOK_EVERY_MS)
  }
  return false
}

const handPlace = await crew.openProxies()
await crew.openBrokerProxies()
await using hand = await openHand(handPlace)
const random = new Random(task.seed, 'nemesis')
const world: World = { task, crew, hand, random, busy: new Set(), clock: await findClock() }
const isUsable = (fault: Fault): boolean => {
  if (!(task.regime.faults?.includes(fault.kind) ?? true)) return false
  const reason = fault.refusal?.(world) ?? null
  if (reason !== null) note({ id: 0, kind: fault.kind, what: 'refused', hits: [], detail: reason })
  return reason === null
}
const usable = [...processFaults, ...databaseFaults].filter(isUsable)
const ofBroker = task.broker === null ? [] : brokerFaults.filter(isUsable)

await crew.begin()
const beganAt = performance.now()
const lastsMs = task.minutes * 60_000
const report = (): void =>
  tell({
    kind: 'progress',
    phase,
    share: Math.min(1, (performance.now() - beganAt) / lastsMs),
    ...crew.totals,
    faults: struck,
    doing: [...doing].join(', '),
  })
setInterval(report, 500).unref()

const sampling = startSampling(world, handPlace)
await pause(WARM_UP_MS)
const endsAt = beganAt + lastsMs
await Promise.all([breakThings(world, usable, endsAt), breakBroker(world, ofBroker, endsAt)])
phase = 'draining'
await sampling.stop()
await crew.stopProducing()
const isDrained = await drained(world)
phase = 'over'
await crew.end()
report()
await new Promise<void>((resolve) => {
  process.send?.({ kind: 'over', drained: isDrained, crashes: crew.crashes } satisfies FromNemesis, () =>
    resolve(),
  )
})
process.removeAllListeners('disconnect')
process.disconnect?.()
