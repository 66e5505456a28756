/**
 * The transactions that are open in Prisma's engine. It counts how deep each of them is: a beginning makes a savepoint, an end
 * ends the innermost, or all of it where there is none, whoever asked. So an end that meets another one ends the wrong level,
 * and a COMMIT may come of a rollback. Therefore beginnings, ends and our questions go in turn here, and what was undone
 * together with the level around it is not committed.
 */
import { ERROR_CODES, TransactionError } from '../../core/errors.ts'
import { transactionOver } from '../../stores/sql/transaction-scope.ts'

export interface TransactionOfRequest {
  readonly id: unknown
}

/** Of a beginning: nested ones have the id of the one around them. */
interface Beginning {
  readonly newTxId?: unknown
}

export interface TransactionEngine {
  /** An end is asked for with the very object that its beginning was answered with. */
  transaction(
    action: 'start' | 'commit' | 'rollback',
    headers: unknown,
    about: Ending & Beginning,
  ): Promise<TransactionOfRequest>
}

type Ending = Partial<TransactionOfRequest>
type Send = () => Promise<TransactionOfRequest>

/** A transaction, or one that is nested in it. */
export class Level {
  readonly #outer: Level | undefined
  #isUndone = false
  /** A statement of ours is missing in it. */
  isIncomplete = false

  constructor(outer: Level | undefined) {
    this.#outer = outer
  }

  /** With those around it, also when it has ended well before. */
  get isUndone(): boolean {
    return this.#isUndone || this.#outer?.isUndone === true
  }

  undo(): void {
    this.#isUndone = true
  }
}

/** One transaction with those nested in it; the innermost is the last. */
class Open {
  readonly levels: Level[] = []
  /** The end of the outermost was asked for. */
  isEnding = false
  #last: Promise<unknown> = Promise.resolve()
  #waiting = 0

  /** One that began before it was watched has no level that is known. */
  get isOver(): boolean {
    return this.levels.length === 0 && this.#waiting === 0
  }

  async inTurn<T>(work: () => Promise<T>): Promise<T> {
    const answer = this.#last.then(work)
    this.#last = answer.catch(() => undefined)
    this.#waiting++
    try {
      return await answer
    } finally {
      this.#waiting--
    }
  }
}

const incomplete = (): TransactionError =>
  new TransactionError(
    ERROR_CODES.commitRolledBack,
    'An event could not be stored as a whole in this transaction, and its error was swallowed, so the transaction is rolled back.',
  )

/** Prisma wants them, and heeds them in the outermost only. */
const LIMITS = { maxWait: 2_000, timeout: 5_000 } as const

/** Transactions that are open, of the outbox and of the application, by their ids. */
export class Running {
  readonly #open = new Map<unknown, Open>()
  readonly #levels = new WeakMap<object, Level>()
  readonly #transaction: TransactionEngine['transaction']

  /** From now on it is known of them from their beginning to their end. */
  constructor(engine: TransactionEngine) {
    this.#transaction = engine.transaction.bind(engine)
    engine.transaction = (action, headers, about) => {
      const send = () => this.#transaction(action, headers, about)
      if (action === 'start') return this.#begin(about.newTxId, send)
      return action === 'commit' ? this.#commit(about, send) : this.#rollBack(about, send)
    }
  }

  /** The transaction, whichever of its handles is at hand. */
  get(id: unknown): object | undefined {
    const open = this.#open.get(id)
    return open?.levels.length === 0 ? undefined : open
  }

  /** The innermost one. Undefined where that is not nested: with it its handle ends. */
  nested(id: unknown): Level | undefined {
    const levels = this.#open.get(id)?.levels ?? []
    return levels.length > 1 ? levels.at(-1) : undefined
  }

  /** With those around it: what is missing would be missing there too. */
  refuseCommit(id: unknown): void {
    for (const level of this.#open.get(id)?.levels ?? []) level.isIncomplete = true
  }

  /**
   * Rejects unless there still is a transaction. By a savepoint of the engine: what an application sends, adapters for MySQL
   * prepare, and MySQL prepares no savepoints. Not by a nested transaction of a handle: where that meets one of the
   * application, Prisma refuses the second.
   */
  ask(id: unknown): Promise<void> {
    return this.#inTurn(id, async ({ isEnding }) => {
      if (isEnding) throw transactionOver()
      await this.#transaction('start', {}, { ...LIMITS, newTxId: id })
      await this.#transaction('commit', {}, { id })
    })
  }

  async #inTurn<T>(id: unknown, work: (open: Open) => Promise<T>): Promise<T> {
    const open = this.#openOf(id)
    try {
      return await open.inTurn(() => work(open))
    } finally {
      if (open.isOver) this.#open.delete(id)
    }
  }

  #openOf(id: unknown): Open {
    const open = this.#open.get(id) ?? new Open()
    this.#open.set(id, open)
    return open
  }

  async #begin(outer: unknown, send: Send): Promise<TransactionOfRequest> {
    if (outer === undefined) return this.#began(await send())
    return await this.#inTurn(outer, async ({ isEnding }) => {
      if (isEnding) throw transactionOver()
      return this.#began(await send())
    })
  }

  #began(answer: TransactionOfRequest): TransactionOfRequest {
    const { levels } = this.#openOf(answer.id)
    const level = new Level(levels.at(-1))
    levels.push(level)
    this.#levels.set(answer, level)
    return answer
  }

  #commit(about: Ending, send: Send): Promise<TransactionOfRequest> {
    const level = this.#asked(about)
    return this.#inTurn(about.id, async ({ levels }) => {
      // A rollback follows.
      if (level?.isUndone === true || level !== levels.at(-1)) throw transactionOver()
      if (level?.isIncomplete === true) throw incomplete()
      return await send().finally(() => levels.pop())
    })
  }

  /** It also follows a commit that failed, and undoes the level around that one then, because the engine has left it already. */
  #rollBack(about: Ending, send: Send): Promise<TransactionOfRequest> {
    this.#asked(about)?.undo()
    return this.#inTurn(about.id, (open) => {
      const { levels } = open
      if (levels.length <= 1) open.isEnding = true
      levels.at(-1)?.undo()
      return send().finally(() => levels.pop())
    })
  }

  /** Whose end is asked for. */
  #asked(about: Ending): Level | undefined {
    const open = this.#open.get(about.id)
    const level = this.#levels.get(about) ?? open?.levels.at(-1)
    if (open !== undefined && level === open.levels[0]) open.isEnding = true
    return level
  }
}
