/**
 * The way between a process and the database. A call takes time to arrive and its answer takes time to come back,
 * so calls overlap and answers are old. Calls and answers get lost; then the caller hears of a transient error and
 * cannot know which of the two it was.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { ERROR_CODES, StoreError } from '../src/core/errors.ts'
import type { ReadRequest, ReadResult } from '../src/core/spi/index.ts'
import type { Boot } from './boot.ts'
import type { Layer } from './intercept.ts'
import type { World } from './world.ts'

/** Statements that only look take no locks that anybody could wait for. */
const LOOKS = /^(?:queue\.read|lanes\.survey|registry\.(?:load|find)|inspection\.)/

/** What an operator asks for is answered to him: those who deliver in the same process do not hear of it. */
export const operatorsDesk = new AsyncLocalStorage<true>()

/** Two statements waited for each other, and the database ended this one. */
const deadlock = (what: string): StoreError =>
  new StoreError(ERROR_CODES.storeBusy, `${what}: deadlock`, { transient: true })

const unreachable = (what: string): StoreError =>
  new StoreError(ERROR_CODES.storeUnavailable, `${what}: the connection was lost`, { transient: true })

/** Carries out `work` at the database; the promise is the caller's and is never settled once it is gone. */
export const hop = <T>(world: World, boot: Boot, name: string, work: () => Promise<T>): Promise<T> => {
  const { scheduler, network, plan } = world
  return new Promise<T>((resolve, reject) => {
    if (!boot.alive) return
    const requestLost = world.strikes('requestLost', network)
    const replyLost = !requestLost && world.strikes('replyLost', network)
    const slow = world.strikes('slowCall', network) ? longTime(world) : [0, 0]
    const survivesCrash = network.chance(0.5)
    const isDelivering = operatorsDesk.getStore() === undefined
    const fail = (): void => {
      scheduler.after(network.between(10, 600), () => reject(unreachable(name)), boot)
    }
    const land = (value: T): void => {
      if (name === 'registry.load' && isDelivering) boot.learnRegistry(value as object)
      resolve(value)
    }
    const arrive = (): void => {
      if (!boot.alive && !survivesCrash) return
      if (requestLost || world.databaseDownUntil > scheduler.now) {
        world.note(boot.name, `${name} did not reach the database`)
        fail()
        return
      }
      work().then(
        (value) => {
          if (replyLost) {
            world.note(boot.name, `${name} was carried out, but its answer is lost`)
            fail()
          } else scheduler.after(world.latency() + (slow[1] ?? 0), () => land(value), boot)
        },
        (error: unknown) => scheduler.after(world.latency(), () => reject(error), boot),
      )
    }
    scheduler.after(world.latency() + (slow[0] ?? 0), arrive)
  })

  /** Up to beyond the lease, on the way there, on the way back, or both. */
  function longTime({ network: random }: World): readonly [number, number] {
    const long = (): number => random.between(0.1, 1.4) * plan.settings.laneLeaseMs
    return random.pick([[long(), 0] as const, [0, long()] as const, [long(), long()] as const])
  }
}

/** Every call of a process through `hop`; what the layer below does happens at the database. */
export const networkLayer =
  (world: World, boot: Boot): Layer =>
  (name, args, next) =>
    hop(world, boot, name, async () => {
      if (!LOOKS.test(name) && world.strikes('deadlock', world.network)) {
        world.note(boot.name, `${name} is the victim of a deadlock`)
        throw deadlock(name)
      }
      const result = await next(args)
      world.note(boot.name, name === 'queue.read' ? describeRead(args[0], result) : name)
      return result
    })

const describeRead = (request: unknown, result: unknown): string => {
  const { destination, after } = request as ReadRequest
  const { fresh, due, swept } = result as ReadResult
  return `queue.read ${destination} after ${after}: ${fresh.length} fresh, ${due.length} due, ${swept?.length ?? 'not'} swept`
}
