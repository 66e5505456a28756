/** The application: transactions that publish, in every style, some of which are rolled back or take very long. */
import type { Draft } from '../src/core/define-event.ts'
import type { MemoryTransaction } from '../src/stores/memory/index.ts'
import type { Boot } from './boot.ts'
import type { Script } from './transactions.ts'
import type { Fact } from './truth.ts'
import type { World } from './world.ts'

const TYPES = ['order.placed', 'order.paid', 'user.joined'] as const
const LARGE = 'x'.repeat(300_000)

/** How the application ends on purpose what it began. */
class ChangedItsMind extends Error {}

export class Producers {
  readonly #world: World
  #running: Boot[] = []
  #events = 0
  #transactions = 0

  constructor(world: World) {
    this.#world = world
  }

  get published(): number {
    return this.#events
  }

  /** Transactions are still open somewhere, so there may be more to deliver in a moment. */
  get busy(): boolean {
    return this.#running.some(({ alive }) => alive)
  }

  /** One transaction of this process, from begin to end. Never throws: the application's errors are its own. */
  async transact(boot: Boot): Promise<void> {
    const { workload } = this.#world
    this.#transactions += 1
    const script: Script = { id: this.#transactions, surviving: [] }
    this.#running.push(boot)
    const style = workload.pick(['function', 'function', 'manual', 'bare'] as const)
    try {
      if (style === 'function') {
        await boot.outbox.transaction(async (tx) => {
          boot.transactions.follow(tx, script)
          await this.#publishSome(boot, tx, script)
          if (this.#changesMind()) throw new ChangedItsMind()
        })
      } else if (style === 'manual') await this.#manually(boot, script)
      else await this.#barely(boot, script)
    } catch (error) {
      const why = error instanceof ChangedItsMind ? 'on purpose' : String(error)
      this.#world.note(boot.name, `transaction ${script.id} failed: ${why}`)
    } finally {
      this.#running.splice(this.#running.indexOf(boot), 1)
    }
  }

  async #manually(boot: Boot, script: Script): Promise<void> {
    const transaction = await boot.outbox.begin()
    boot.transactions.follow(transaction.tx, script)
    try {
      await this.#publishSome(boot, transaction.tx, script)
    } catch (error) {
      await transaction.rollback()
      throw error
    }
    if (this.#changesMind()) await transaction.rollback()
    else await transaction.commit()
  }

  /** A transaction that the library knows nothing of: nobody tells it about the commit. */
  async #barely(boot: Boot, script: Script): Promise<void> {
    const opened = await boot.transactions.begin()
    boot.transactions.follow(opened.tx, script)
    try {
      await this.#publishSome(boot, opened.tx, script)
    } catch (error) {
      await opened.rollback()
      throw error
    }
    if (this.#changesMind()) await opened.rollback()
    else await opened.commit()
  }

  #changesMind(): boolean {
    return this.#world.strikes('rollback', this.#world.workload)
  }

  async #publishSome(boot: Boot, tx: MemoryTransaction, script: Script): Promise<void> {
    const world = this.#world
    const { workload, scheduler } = world
    const count = workload.pick([1, 1, 1, 2, 3])
    for (let i = 0; i < count; i += 1) {
      if (world.strikes('savepoint', workload)) await this.#savepoint(boot, tx, script)
      else await this.#publish(boot, tx, script)
    }
    const { settings, upgradeAtMs } = world.plan
    const meetsDeploy = !boot.newVersion && upgradeAtMs !== null && world.now >= upgradeAtMs
    if (world.strikes('longTransaction', workload)) {
      await scheduler.sleep(workload.between(0.1, 1.6) * settings.hotLeaseMs, boot)
    } else if (meetsDeploy && workload.chance(0.3)) {
      // It does not know the newest routes, and commits when everybody believes that all of its kind are gone.
      await scheduler.sleep(workload.between(1_000, 5_000), boot)
    } else if (workload.chance(0.3)) await scheduler.sleep(workload.between(0, 50), boot)
  }

  async #savepoint(boot: Boot, tx: MemoryTransaction, script: Script): Promise<void> {
    const before = script.surviving.length
    const nested = async (inner: MemoryTransaction): Promise<void> => {
      await this.#publish(boot, inner, script)
      if (this.#world.workload.chance(0.6)) throw new ChangedItsMind()
    }
    try {
      if (boot.outbox.txContext.isTransactionActive()) await boot.outbox.transaction(nested)
      else await this.#publish(boot, tx, script)
    } catch (error) {
      if (!(error instanceof ChangedItsMind)) throw error
      script.surviving.length = before
      this.#world.count('savepointUndone')
    }
  }

  async #publish(boot: Boot, tx: MemoryTransaction, script: Script): Promise<void> {
    const fact = this.#invent(script)
    this.#world.truth.add(fact)
    this.#world.note(boot.name, `publishes e${fact.n}${describe(fact)} in transaction ${script.id}`, [fact.n])
    // It counts from here on: if the call fails, so does the transaction.
    script.surviving.push(fact.n)
    const { type, key, delayMs, idempotencyKey } = fact
    const draft: Draft = {
      type,
      payload: JSON.parse(fact.data) as unknown,
      key,
      ...(delayMs > 0 ? { delayMs } : {}),
      ...(idempotencyKey === null ? {} : { idempotencyKey }),
    }
    await boot.outbox.publish(tx, draft)
  }

  #invent(script: Script): Fact {
    const { workload, plan } = this.#world
    this.#events += 1
    const n = this.#events
    const large = plan.largePayloads && workload.chance(0.4)
    const poison = new Set<string>()
    if (this.#world.strikes('poison', workload)) poison.add(workload.pick(plan.destinations).name)
    return {
      n,
      data: JSON.stringify({ n, ...(large ? { ballast: LARGE } : {}) }),
      type: workload.pick(TYPES),
      key: workload.chance(0.65) ? workload.pick(plan.keys) : null,
      delayMs: workload.chance(0.12) ? workload.whole(50, 4_000) : 0,
      idempotencyKey: workload.chance(0.1) ? `order-${workload.whole(1, 4)}-${script.id % 5}` : null,
      transaction: script.id,
      place: script.surviving.length,
      poison,
      beganAt: this.#world.scheduler.steps,
      storedAt: null,
      committedAt: null,
      committedAtMs: 0,
      swallowed: false,
    }
  }
}

const describe = ({ type, key, delayMs, idempotencyKey }: Fact): string =>
  [
    ` (${type}`,
    key === null ? '' : `, key ${key}`,
    delayMs > 0 ? `, delayed ${delayMs} ms` : '',
    idempotencyKey === null ? '' : `, once per ${idempotencyKey}`,
    ')',
  ].join('')
