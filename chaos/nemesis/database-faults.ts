/** Faults of the database, of what is in front of it, and of the way to it. */
import { setTimeout as pause } from 'node:timers/promises'
import { killService, startService } from '../../scripts/services/index.ts'
import type { Proxy as TcpProxy } from '../../test/databases/proxy.ts'
import { type Disk, fillDisk, freeDisk } from '../databases/disk.ts'
import { SLOTS } from './crew.ts'
import { type Fault, Missed, pickSlot, type World } from './fault.ts'

const NO_SERVER = 'this store has no server'
/** Somebody commits several times a second; who does not is suspended, or away. */
const COMMIT_WITHIN_MS = 5_000

const needsServer = ({ task }: World): string | null => (task.arena.server === null ? NO_SERVER : null)

const within = async (ms: number, happens: Promise<unknown>, what: string): Promise<void> => {
  const timer = new AbortController()
  const late = pause(ms, true, { signal: timer.signal }).catch(() => false)
  const missed = await Promise.race([happens.then(() => false), late])
  timer.abort()
  if (missed) throw new Missed(what)
}

const killConnections: Fault = {
  kind: 'kill-connections',
  refusal: needsServer,
  aim: ({ hand, random }) => {
    const share = random.between(0.3, 1)
    return {
      hits: 'all',
      act: async () => {
        // Another fault may have taken the server away.
        const killed = await hand.killConnections(share).catch(() => 0)
        if (killed === 0) throw new Missed('nobody was connected')
      },
    }
  },
}

/** On one connection, at the moment at which it matters most. */
const atCommit = (
  kind: string,
  strike: (proxy: TcpProxy, when: 'before' | 'after') => Promise<void>,
): Fault => ({
  kind,
  refusal: needsServer,
  aim(world) {
    const slot = pickSlot(
      world,
      SLOTS.filter(({ produces }) => produces),
    )
    const proxy = slot && world.crew.proxies.get(slot.name)
    if (!slot || !proxy) return null
    const when = world.random.pick(['before', 'after'] as const)
    return {
      hits: [slot.name],
      detail: `${slot.name}, ${when} the server got it`,
      act: async () => {
        try {
          await within(COMMIT_WITHIN_MS, strike(proxy, when), 'nobody committed')
        } finally {
          proxy.disarm()
        }
      },
    }
  },
})

const cutAtCommit = atCommit('cut-at-commit', (proxy, when) => proxy.cutAt('COMMIT', when))
const halfOpenAtCommit = atCommit('half-open-at-commit', (proxy, when) => proxy.silenceAt('COMMIT', when))

/** All connections of one process at once, and those that it makes meanwhile. */
const silence: Fault = {
  kind: 'silent-network',
  refusal: needsServer,
  aim(world) {
    const slot = pickSlot(world, SLOTS)
    const proxy = slot && world.crew.proxies.get(slot.name)
    if (!slot || !proxy) return null
    const ms = Math.round(world.task.leaseMs * world.random.between(0.3, 1.7))
    return {
      hits: [slot.name],
      detail: `${slot.name} for ${ms} ms`,
      act: async () => {
        proxy.goSilent()
        await pause(ms)
        proxy.pass()
      },
    }
  },
}

/** The server, and the pooler that may have to be told where it is now. */
const bringUp = async ({ task, crew }: World): Promise<void> => {
  const { server, pooler } = task.arena
  const at = await startService(server as string)
  crew.redirect(at, pooler === null ? at : await startService(pooler.name))
}

const killDatabase: Fault = {
  kind: 'kill-database',
  refusal: needsServer,
  aim: (world) => {
    const awayMs = world.random.whole(0, 1_500)
    return {
      hits: 'all',
      detail: `for ${awayMs} ms and its start`,
      act: async () => {
        await killService(world.task.arena.server as string)
        await pause(awayMs)
        await bringUp(world)
      },
    }
  },
}

const restartPooler: Fault = {
  kind: 'restart-pooler',
  refusal: ({ task }) => (task.arena.pooler === null ? 'there is no pooler in front of this store' : null),
  aim: (world) => {
    const awayMs = world.random.whole(0, 1_000)
    return {
      hits: SLOTS.filter(({ pooled }) => pooled).map(({ name }) => name),
      act: async () => {
        await killService(world.task.arena.pooler?.name as string)
        await pause(awayMs)
        await bringUp(world)
      },
    }
  },
}

/** On SQLite a transaction that writes keeps all others waiting, so leases may run out. */
const longTransaction: Fault = {
  kind: 'long-transaction',
  aim(world) {
    const { task, hand, crew, random } = world
    const embedded = task.arena.server === null
    const slot = pickSlot(
      world,
      SLOTS.filter(({ produces }) => produces),
    )
    if (slot === null) return null
    const ms = embedded ? random.whole(800, 4_000) : random.whole(2_000, 7_000)
    return {
      hits: embedded ? 'all' : [],
      detail: `${ms} ms, and ${slot.name} commits late`,
      act: async () => {
        const late = embedded ? Promise.resolve() : crew.ask(slot.name, { kind: 'hold', ms }, 'held')
        // Another fault may end it early.
        const held = await hand.holdTransaction(ms).then(
          () => true,
          () => false,
        )
        await late
        if (!held) throw new Missed('the transaction was ended by another fault')
      },
    }
  },
}

const ANSWER_WITHIN_MS = 4_000

const answers = async ({ hand }: World): Promise<boolean> => {
  const answered = hand.ping().then(
    () => true,
    () => false,
  )
  return await Promise.race([answered, pause(ANSWER_WITHIN_MS, false)])
}

/** A server that gave up on the full disk, or that would look at it only a minute later, is started anew. */
const bringBack = async (world: World): Promise<void> => {
  const { server } = world.task.arena
  if (server === null) return
  await bringUp(world)
  if (await answers(world)) return
  // It may have given up in the meantime by itself.
  await killService(server).catch(() => undefined)
  await bringUp(world)
}

const FULL_WITHIN_MS = 5_000

/** Writes until something is refused, because servers keep some room for themselves. */
const untilFull = async (world: World): Promise<boolean> => {
  const deadline = performance.now() + FULL_WITHIN_MS
  while (performance.now() < deadline) if (!(await answers(world))) return true
  return false
}

const fullDisk: Fault = {
  kind: 'full-disk',
  refusal: ({ task }) => (typeof task.arena.disk === 'string' ? task.arena.disk : null),
  aim: (world) => {
    const fullMs = world.random.whole(1_000, 4_000)
    return {
      hits: 'all',
      detail: `for ${fullMs} ms`,
      act: async () => {
        const disk = world.task.arena.disk as Disk
        let full = false
        const problem = fillDisk(disk)
        if (problem !== null) throw new Missed(problem)
        try {
          full = await untilFull(world)
          if (full) await pause(fullMs)
        } finally {
          freeDisk(disk)
          await bringBack(world)
        }
        if (!full) throw new Missed('everything still fitted')
      },
    }
  },
}

export const databaseFaults: readonly Fault[] = [
  killConnections,
  cutAtCommit,
  halfOpenAtCommit,
  silence,
  killDatabase,
  restartPooler,
  longTransaction,
  fullDisk,
]
