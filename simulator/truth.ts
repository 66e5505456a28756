/**
 * What is true, written down by the simulator itself: which events were committed and when, which were sent where.
 * Nothing here is learned from the library.
 */
export interface Fact {
  readonly n: number
  readonly type: string
  readonly key: string | null
  readonly delayMs: number
  readonly idempotencyKey: string | null
  /** Number of its transaction, and its place among the events of it. */
  readonly transaction: number
  readonly place: number
  /** Destinations at which it ends the process that handles it. */
  readonly poison: ReadonlySet<string>
  readonly data: string
  /** Step in which publish was called. */
  readonly beganAt: number
  /** Step in which the database stored it, still invisible. */
  storedAt: number | null
  committedAt: number | null
  committedAtMs: number
  /** Another event with its idempotency key was first. */
  swallowed: boolean
}

/** One arrival of an event at a destination, and what its sender learned of it. */
export interface Receipt {
  readonly deliveryId: string
  readonly run: number
  readonly boot: string
  readonly step: number
  readonly atMs: number
  /** The sender was told something else than that it arrived, or nothing in time. */
  replyFailed: boolean
  /** The network brought it twice. */
  readonly copied: boolean
  /** The database knows from this sender that it is done. */
  settled: boolean
  rightLost: boolean
  senderGone: boolean
}

/** One event and one destination. */
export interface Journey {
  readonly fact: Fact
  readonly destination: string
  firstAttemptAt: number | null
  acceptedAt: number | null
  readonly receipts: Receipt[]
}

/** What was answered for one delivery, by which its attempts are judged. */
export interface Answers {
  sends: number
  failures: number
  outages: number
  spent: number
  /** Processes that ended because of it. */
  kills: number
  buried: boolean
}

export class Truth {
  readonly facts = new Map<number, Fact>()
  readonly byKey = new Map<string, Fact[]>()
  readonly journeys = new Map<string, Journey>()
  readonly answers = new Map<string, Answers>()
  /** Since which step a destination hears a pattern without interruption, and since when at all. */
  readonly declaredAt = new Map<string, ReadonlyMap<string, number>>()
  readonly firstDeclaredAt = new Map<string, Map<string, number>>()
  /** Since when a destination is paused, in milliseconds. */
  readonly pausedSince = new Map<string, number>()
  /** When the database gave this answer about its registry. */
  readonly registryReadAt = new WeakMap<object, number>()
  readonly #firstByIdempotencyKey = new Map<string, number>()

  add(fact: Fact): void {
    this.facts.set(fact.n, fact)
    if (fact.key === null) return
    const others = this.byKey.get(fact.key)
    if (others === undefined) this.byKey.set(fact.key, [fact])
    else others.push(fact)
  }

  /** The database committed these, in this order. */
  commit(numbers: readonly number[], step: number, atMs: number): void {
    for (const n of numbers) {
      const fact = this.facts.get(n) as Fact
      const identity = fact.idempotencyKey === null ? null : `${fact.type} ${fact.idempotencyKey}`
      if (identity !== null && this.#firstByIdempotencyKey.has(identity)) {
        fact.swallowed = true
        continue
      }
      if (identity !== null) this.#firstByIdempotencyKey.set(identity, n)
      fact.committedAt = step
      fact.committedAtMs = atMs
    }
  }

  /** These are its patterns from now on; those that it had before it has longer. */
  declare(destination: string, patterns: readonly string[], step: number): void {
    const before = this.declaredAt.get(destination)
    this.declaredAt.set(destination, new Map(patterns.map((one) => [one, before?.get(one) ?? step])))
    const first = this.firstDeclaredAt.get(destination) ?? new Map<string, number>()
    for (const pattern of patterns) if (!first.has(pattern)) first.set(pattern, step)
    this.firstDeclaredAt.set(destination, first)
  }

  journey(fact: Fact, destination: string): Journey {
    const id = `${fact.n} ${destination}`
    let journey = this.journeys.get(id)
    if (journey === undefined) {
      journey = { fact, destination, firstAttemptAt: null, acceptedAt: null, receipts: [] }
      this.journeys.set(id, journey)
    }
    return journey
  }

  answersFor(deliveryId: string): Answers {
    let answers = this.answers.get(deliveryId)
    if (answers === undefined) {
      answers = { sends: 0, failures: 0, outages: 0, spent: 0, kills: 0, buried: false }
      this.answers.set(deliveryId, answers)
    }
    return answers
  }
}

/** The simulator's number of an event, from its payload. */
export const numberOf = (data: string | Uint8Array): number => {
  const text = typeof data === 'string' ? data : Buffer.from(data).toString()
  return Number.parseInt(text.slice(text.indexOf(':') + 1), 10)
}
