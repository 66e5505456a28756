/**
 * Transactions over the simulated network: every statement takes a round trip, a failed statement loses the
 * connection and with it the transaction, and the answer to COMMIT can be lost.
 */
import { ERROR_CODES, StoreError } from '../src/core/errors.ts'
import type { InsertRequest, OpenTransaction, Transactions } from '../src/core/spi/index.ts'
import type { MemoryTransaction } from '../src/stores/memory/index.ts'
import type { Boot } from './boot.ts'
import { hop } from './network.ts'
import { numberOf } from './truth.ts'
import type { World } from './world.ts'

/** Numbers of the events that a transaction would commit now. */
export type Script = { readonly id: number; surviving: number[] }

type MemoryTransactions = Transactions<MemoryTransaction, MemoryTransaction>

export class SimulatedTransactions implements MemoryTransactions {
  readonly library = 'simulated'
  readonly #world: World
  readonly #boot: Boot
  readonly #inner: MemoryTransactions
  readonly #scripts = new WeakMap<MemoryTransaction, Script>()

  constructor(world: World, boot: Boot, inner: MemoryTransactions) {
    this.#world = world
    this.#boot = boot
    this.#inner = inner
  }

  /** The producer says which events are in the transaction; the database's commit makes them facts. */
  follow(tx: MemoryTransaction, script: Script): void {
    this.#scripts.set(tx, script)
  }

  async run<T>(fn: (tx: MemoryTransaction) => Promise<T>): Promise<T> {
    const opened = await this.begin()
    let result: T
    try {
      result = await fn(opened.tx)
    } catch (error) {
      await opened.rollback().catch(() => undefined)
      throw error
    }
    await opened.commit()
    return result
  }

  async begin(): Promise<OpenTransaction<MemoryTransaction>> {
    const begin = this.#inner.begin?.bind(this.#inner)
    if (begin === undefined) throw new Error('the memory store has no begin')
    const opened = await hop(this.#world, this.#boot, 'begin', () => begin())
    return {
      tx: opened.tx,
      commit: () => this.#commit(opened),
      rollback: () =>
        hop(this.#world, this.#boot, 'rollback', () => opened.rollback()).catch(async (error: unknown) => {
          // The connection is gone, and the server rolls back what it left open.
          await opened.rollback()
          throw error
        }),
    }
  }

  async nested<T>(tx: MemoryTransaction, fn: (tx: MemoryTransaction) => Promise<T>): Promise<T> {
    await this.#world.scheduler.sleep(this.#world.latency(), this.#boot)
    if (this.#world.defect?.keepsSavepoints === true) return await fn(tx)
    return await (this.#inner.nested as NonNullable<MemoryTransactions['nested']>)(tx, fn)
  }

  executor(tx: MemoryTransaction): MemoryTransaction {
    return this.#inner.executor(tx)
  }

  inTransaction(tx: MemoryTransaction): boolean | undefined {
    return this.#inner.inTransaction(tx)
  }

  #commit(opened: OpenTransaction<MemoryTransaction>): Promise<void> {
    const world = this.#world
    const { network, scheduler } = world
    const believes = world.defect?.believes
    const unknown = world.strikes('commitUnknown', network)
    const applied = !unknown || network.chance(0.5)
    const refused = !unknown && world.strikes('rollback', network) && network.chance(0.4)
    return new Promise((resolve, reject) => {
      const answer = (then: () => void, delayMs = world.latency()): void => {
        scheduler.after(delayMs, then, this.#boot)
      }
      if (believes === 'sent') answer(resolve, 0)
      const survivesCrash = network.chance(0.5)
      scheduler.after(world.latency(), () => {
        if (!this.#boot.alive && !survivesCrash) return
        if (!opened.tx.isOpen || refused) {
          world.count('commitRolledBack')
          if (opened.tx.isOpen) void opened.rollback()
          if (believes === 'rolledBack') answer(resolve)
          else answer(() => reject(commitError('commitRolledBack', 'COMMIT was answered by ROLLBACK')))
          return
        }
        if (unknown) world.count(applied ? 'commitUnknownApplied' : 'commitUnknownLost')
        if (applied) this.#apply(opened)
        else void opened.rollback()
        if (!unknown || believes === 'unknown') answer(resolve)
        else
          answer(
            () => reject(commitError('commitUnknown', 'the answer to COMMIT was lost')),
            network.between(5, 500),
          )
      })
    })
  }

  #apply(opened: OpenTransaction<MemoryTransaction>): void {
    const world = this.#world
    const { scheduler, truth } = world
    const numbers = this.#scripts.get(opened.tx)?.surviving ?? []
    const { firstSeq } = opened.tx.log
    const visible = [...world.database.events.values()].at(-1)?.seq ?? 0n
    if (firstSeq !== null && firstSeq < visible) world.count('lateCommit')
    this.#boot.observer.during('commit', () => {
      void opened.commit()
      truth.commit(numbers, scheduler.steps, scheduler.now)
    })
    world.count('deduplicated', numbers.filter((n) => truth.facts.get(n)?.swallowed === true).length)
    world.note(this.#boot.name, 'commit', numbers)
  }
}

const commitError = (code: 'commitUnknown' | 'commitRolledBack', message: string): StoreError =>
  new StoreError(ERROR_CODES[code], message)

/** The insert arrives: the events are stored, invisible until the commit. */
export const noteStored = (world: World, request: InsertRequest): void => {
  for (const event of request.events) {
    const fact = world.truth.facts.get(numberOf(event.data))
    if (fact !== undefined) fact.storedAt = world.scheduler.steps
  }
}
