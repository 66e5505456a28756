/** Faults of processes: killed, suspended, restarted, with another clock. */
import { setTimeout as pause } from 'node:timers/promises'
import { isBroker } from '../brokers/kit.ts'
import type { Clock } from './clock.ts'
import { SLOTS, type Slot } from './crew.ts'
import { type Fault, holding, pickSlot, type World } from './fault.ts'
import type { Build } from './messages.ts'

const HOUR_S = 3_600

const kill = (kind: string, victims: readonly Slot[]): Fault => ({
  kind,
  aim(world) {
    const slot = pickSlot(world, victims)
    if (slot === null) return null
    const awayMs = world.random.whole(0, 800)
    return {
      hits: [slot.name],
      detail: slot.name,
      act: () =>
        holding(world, [slot.name], async () => {
          await world.crew.kill(slot.name)
          await pause(awayMs)
          await world.crew.start(slot)
        }),
    }
  },
})

const stopWorker: Fault = {
  kind: 'stop-worker',
  aim(world) {
    const slot = pickSlot(
      world,
      SLOTS.filter(({ serves }) => serves),
    )
    if (slot === null) return null
    const ms = Math.round(world.task.leaseMs * world.random.between(1.2, 2))
    return {
      hits: [slot.name],
      detail: `${slot.name} for ${ms} ms`,
      act: () =>
        holding(world, [slot.name], async () => {
          world.crew.signal(slot.name, 'SIGSTOP')
          await pause(ms)
          world.crew.signal(slot.name, 'SIGCONT')
        }),
    }
  },
}

/** Two at a time, as many deployments do; whoever another fault has in its hands is left out. */
const roll = async (world: World, restart: (slot: Slot) => Promise<void>): Promise<void> => {
  const waiting = [...SLOTS]
  while (waiting.length > 0) {
    const pair = waiting.splice(0, 2).filter(({ name }) => !world.busy.has(name))
    await holding(
      world,
      pair.map(({ name }) => name),
      async () => void (await Promise.all(pair.map(restart))),
    )
  }
}

/** Each ends as a deployment would end it, so nothing may come twice because of it. */
const rollingRestart: Fault = {
  kind: 'rolling-restart',
  aim: (world) => ({
    hits: [],
    act: () =>
      roll(world, async (slot) => {
        await world.crew.stop(slot.name)
        await world.crew.start(slot)
      }),
  }),
}

/** The last release and this one at once, on the same tables. */
const mixedVersions: Fault = {
  kind: 'mixed-versions',
  refusal: ({ task }) => (typeof task.previous === 'string' ? task.previous : null),
  aim: (world) => {
    const { folder } = world.task.previous as Build
    const older = new Set(SLOTS.filter(() => world.random.chance(0.5)).map(({ name }) => name))
    return {
      hits: [],
      detail: `older: ${[...older].join(', ')}`,
      act: () =>
        roll(world, async (slot) => {
          await world.crew.stop(slot.name)
          await world.crew.start(slot, {}, older.has(slot.name) ? folder : null)
        }),
    }
  },
}

const clockShift: Fault = {
  kind: 'clock-shift',
  refusal({ clock, task }) {
    // Its processes are on one machine, and its time is theirs; what one with another clock writes is wrong.
    if (task.arena.server === null) return 'this store has no server whose clock would count'
    return typeof clock === 'string' ? clock : null
  },
  aim(world) {
    // What producers write down is compared with the sink's clock.
    const slot = pickSlot(
      world,
      SLOTS.filter(({ produces }) => !produces),
    )
    if (slot === null) return null
    const shift = world.random.pick([-HOUR_S, HOUR_S])
    const ms = world.random.whole(2_000, 5_000)
    return {
      hits: [],
      detail: `${slot.name} by ${shift} s for ${ms} ms`,
      act: () =>
        holding(world, [slot.name], async () => {
          await world.crew.stop(slot.name)
          await world.crew.start(slot, (world.clock as Clock)(shift))
          await pause(ms)
          await world.crew.stop(slot.name)
          await world.crew.start(slot)
        }),
    }
  },
}

/** The destination itself goes away; answers to what it has stored are lost. */
const killSink: Fault = {
  kind: 'kill-sink',
  refusal: ({ task }) => (task.destinations.every(isBroker) ? 'nothing is sent to the sink' : null),
  aim: ({ crew, random }) => {
    const awayMs = random.whole(100, 1_500)
    return {
      hits: 'all',
      detail: `for ${awayMs} ms`,
      act: async () => {
        await crew.killSink()
        await pause(awayMs)
        await crew.startSink()
      },
    }
  },
}

export const processFaults: readonly Fault[] = [
  kill(
    'kill-worker',
    SLOTS.filter(({ serves }) => serves),
  ),
  kill(
    'kill-producer',
    SLOTS.filter(({ produces }) => produces),
  ),
  stopWorker,
  rollingRestart,
  mixedVersions,
  clockShift,
  killSink,
]
