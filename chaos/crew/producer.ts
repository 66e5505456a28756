/**
 * Writes transactions until it is stopped. The intent log says before each one what it will be and after it what
 * was answered; the truth table says, in the same transaction, what was published. Keys belong to one producer, and
 * new ones are used whenever it is not known what became of the last transaction: so the order of a key is the order
 * in which its transactions were confirmed.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Random } from '../../simulator/random.ts'
import { type Draft, ERROR_CODES, type Outbox } from '../../src/index.ts'
import { writeTruth } from '../databases/truth.ts'
import { type IntentLine, intentsFile, Log, type TruthLine } from '../logs.ts'
import type { MemberTask } from './messages.ts'
import { destinationsOf, typesFor } from './routes.ts'

const KEYS = 6
const AFTER_FAILURE_MS = 150
const CATCH_UP_MS = 100

class Changed extends Error {
  override readonly name = 'ChangedItsMind'
}

interface Plan {
  readonly drafts: readonly Omit<TruthLine['body'], 'boot' | 'n' | 'publishedAt'>[]
  readonly type: string
  readonly key: string | null
  readonly idempotencyKey: string | null
  readonly rollsBack: boolean
}

export class Producer {
  readonly #task: MemberTask
  readonly #outbox: Outbox<never, never>
  readonly #random: Random
  readonly #log: Log
  readonly #positions = new Map<string, number>()
  #epoch = 0
  #n = 0
  #running = true
  #ended: Promise<void> | null = null
  /** Keys of events that were published once, to be published again. */
  readonly #published: string[] = []
  committed = 0

  constructor(task: MemberTask, outbox: object) {
    this.#task = task
    this.#outbox = outbox as Outbox<never, never>
    this.#random = new Random(task.seed, task.boot)
    this.#log = new Log(task.folder, intentsFile(task.slot))
  }

  run(): Promise<void> {
    this.#ended ??= this.#loop()
    return this.#ended
  }

  async stop(): Promise<void> {
    this.#running = false
    await this.#ended
  }

  /** A transaction that publishes at once and commits late, beside the others. */
  async hold(ms: number): Promise<void> {
    await this.#write(
      { ...this.#plan(), key: this.#newKey('late'), idempotencyKey: null, rollsBack: false },
      ms,
    )
  }

  async #loop(): Promise<void> {
    let due = performance.now()
    while (this.#running) {
      const answer = await this.#write(this.#plan(), 0)
      if (answer === 'unknown') this.#epoch += 1
      // Who fell behind goes on from now: a load that is bounded stays so after a fault.
      due = Math.max(due, performance.now() - CATCH_UP_MS) + this.#pauseMs()
      await pause(answer === 'ok' ? Math.max(0, due - performance.now()) : AFTER_FAILURE_MS)
    }
  }

  #pauseMs(): number {
    return (1_000 / this.#task.regime.perSecond) * this.#random.between(0.2, 1.8)
  }

  #newKey(name: string | number): string {
    return `${this.#task.boot}.${this.#epoch}.${name}`
  }

  #plan(): Plan {
    const random = this.#random
    const type = random.pick(typesFor(this.#task.destinations))
    const destinations = destinationsOf(type, this.#task.destinations)
    const idempotent = random.chance(0.08)
    const forgets = this.#task.regime.cleanupMs !== null
    const draft = {
      destinations,
      delayMs: random.chance(0.06) ? random.whole(200, 1_500) : 0,
      failures: random.chance(0.08) ? random.whole(1, 2) : !forgets && random.chance(0.005) ? 1_000 : 0,
      fate: !forgets && random.chance(0.015) ? ('refused' as const) : ('accepted' as const),
    }
    return {
      type,
      drafts: Array.from({ length: !idempotent && random.chance(0.1) ? 3 : 1 }, () => draft),
      key: random.chance(0.75) ? this.#pickKey(draft.failures > 0 || draft.fate === 'refused') : null,
      idempotencyKey: idempotent ? this.#idempotencyKey() : null,
      rollsBack: random.chance(0.05),
    }
  }

  /** Refused ones hold up their keys; half of the keys never have any, and show how long faults alone do. */
  #pickKey(refused: boolean): string {
    return this.#newKey(this.#random.whole(0, refused ? KEYS / 2 - 1 : KEYS - 1))
  }

  #idempotencyKey(): string {
    const [again] = this.#published.splice(0, this.#random.chance(0.5) ? 1 : 0)
    return again ?? this.#newKey(`once-${this.#n}`)
  }

  #note(n: number, what: IntentLine['what'], more: Pick<IntentLine, 'ids' | 'reason'> = {}): void {
    this.#log.write(
      [{ at: Date.now(), boot: this.#task.boot, n, what, ...more } satisfies IntentLine],
      what !== 'commit',
    )
  }

  async #write(plan: Plan, holdMs: number): Promise<'ok' | 'failed' | 'unknown'> {
    const n = ++this.#n
    this.#note(n, 'begin')
    try {
      await this.#outbox.transaction(async (tx) => {
        const ids = await this.#publish(tx, plan, n)
        if (holdMs > 0) await pause(holdMs)
        if (plan.rollsBack) throw new Changed('the producer changed its mind')
        this.#note(n, 'commit', { ids })
      })
    } catch (error) {
      const what = isUnknown(error) ? 'unknown' : 'failed'
      this.#note(n, what, { reason: String(error).slice(0, 300) })
      return what
    }
    this.#note(n, 'ok')
    if (plan.idempotencyKey !== null && this.#task.regime.cleanupMs === null)
      this.#published.push(plan.idempotencyKey)
    this.committed += 1
    return 'ok'
  }

  async #publish(tx: never, { drafts, type, key, idempotencyKey }: Plan, n: number): Promise<string[]> {
    const publishedAt = Date.now()
    const drafted: Draft[] = drafts.map(({ failures, fate, delayMs }) => ({
      type,
      payload: { failures, fate },
      key,
      ...(delayMs > 0 ? { delayMs } : {}),
      ...(idempotencyKey === null ? {} : { idempotencyKey }),
    }))
    const ids = await this.#outbox.publishMany(tx, drafted)
    const lines = drafts.map(
      (draft, i): TruthLine => ({
        id: ids[i] as string,
        key,
        position: key === null ? 0 : this.#position(key),
        body: { ...draft, boot: this.#task.boot, n, publishedAt },
      }),
    )
    return await writeTruth(
      this.#task.place.kind,
      tx,
      lines,
      idempotencyKey === null ? null : `${type} ${idempotencyKey}`,
    )
  }

  #position(key: string): number {
    const position = (this.#positions.get(key) ?? -1) + 1
    this.#positions.set(key, position)
    return position
  }
}

/** By the code, because another build has classes of its own. */
const isUnknown = (error: unknown): boolean =>
  (error as { code?: unknown } | null)?.code === ERROR_CODES.commitUnknown
