/**
 * Moves rows in batches. A batch is one transaction: its rows are locked, published and told that they are done, or nothing
 * of that happened. So a crash between two batches loses nothing, and doing it again doubles nothing.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { LoadedOutbox } from '../../config/load-config.ts'
import type { Draft } from '../../core/define-event.ts'
import { ERROR_CODES, InvalidEventError, OutboxError } from '../../core/errors.ts'
import { createPreparer, type Preparer } from '../../core/flow/prepare.ts'
import { createIdGenerator } from '../../core/model/uuid.ts'
import { createSystemRuntime } from '../../core/runtime/system-runtime.ts'
import type { Transactions } from '../../core/spi/index.ts'
import { Interrupted } from '../failures.ts'
import type { Progress } from '../terminal.ts'
import { count } from '../text.ts'
import { BadRow, draftOf, uuidOf } from './drafts.ts'
import { asking, type Plan } from './plan.ts'
import {
  boundLocks,
  finishRows,
  type Listed,
  listRows,
  type ReadRow,
  type RowId,
  readRows,
  type Sql,
  unfinishedOf,
} from './statements.ts'
import type { IsHeard } from './unheard.ts'

/** So many ids are read at once; their order is found once for all of them. */
const LISTED = 20_000
/** Some databases are sent twice as much, and take 16 MiB at once. */
const BATCH_BYTES = 4 * 1_048_576
const REFUSED_MOST = 10_000

export interface Refused {
  readonly id: string
  readonly reason: string
}

export interface Moved {
  moved: number
  /** Rows whose event was there already; they were told that they are done. */
  known: number
  batches: number
  readonly refused: Refused[]
}

export interface MoveOptions {
  readonly batchSize: number
  readonly skipInvalid: boolean
  readonly skipKnown: boolean
  /** Null when rows that nobody hears are moved too, or nobody knows who hears. */
  readonly isHeard: IsHeard | null
  readonly signal: AbortSignal
  readonly progress: Progress
  readonly total: number
}

export interface Checked {
  readonly row: ReadRow
  readonly draft: Draft
}

/** Says why a row cannot be published, before anything is written; null when it can. */
export const checker = ({ host }: LoadedOutbox): ((draft: Draft) => string | null) => {
  const runtime = createSystemRuntime()
  const preparer: Preparer = createPreparer(host.options, createIdGenerator(runtime), () => runtime.wallNow())
  return (draft) => {
    try {
      preparer.prepareSync([draft], false)
      return null
    } catch (error) {
      if (error instanceof InvalidEventError) return error.message
      throw error
    }
  }
}

export const sortOut = (
  rows: readonly ReadRow[],
  plan: Plan,
  problemOf: (draft: Draft) => string | null,
): { readonly good: readonly Checked[]; readonly bad: readonly (Refused & { readonly row: ReadRow })[] } => {
  const good: Checked[] = []
  const bad: (Refused & { readonly row: ReadRow })[] = []
  for (const row of rows) {
    let reason: string | null
    let draft: Draft | null = null
    try {
      draft = draftOf(row, plan.rules)
      reason = problemOf(draft)
    } catch (error) {
      if (!(error instanceof BadRow)) throw error
      reason = error.message
    }
    if (draft !== null && reason === null) good.push({ row, draft })
    else bad.push({ row, id: row.id.text, reason: reason ?? '' })
  }
  return { good, bad }
}

/** Heard from whatever build of the package the configuration has loaded. */
const countStored = async (publish: () => Promise<unknown>): Promise<number> => {
  let stored = 0
  const hear = (message: unknown): void => {
    stored += (message as { readonly events: readonly unknown[] }).events.length
  }
  subscribe('posthaste:publish', hear)
  try {
    await publish()
  } finally {
    unsubscribe('posthaste:publish', hear)
  }
  return stored
}

const conflict = (message: string): OutboxError => new OutboxError(ERROR_CODES.conflict, message)

const noId = (source: string, column: string): OutboxError =>
  conflict(`${source} has unfinished rows whose ${column} is empty; each needs an id to be told apart by`)

/** Ids in their order, in batches of so many rows, and so many bytes unless one row alone has more. */
export function* batchesOf(
  listed: readonly Listed[],
  { source, reading }: Plan,
  batchSize: number,
): Generator<readonly RowId[]> {
  let batch: RowId[] = []
  let bytes = 0
  for (const one of listed) {
    if (one.id === null) throw noId(source, reading.id.name)
    if (batch.length > 0 && (batch.length >= batchSize || bytes + one.bytes > BATCH_BYTES)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(one.id)
    bytes += one.bytes
  }
  if (batch.length > 0) yield batch
}

class Mover {
  readonly moved: Moved = { moved: 0, known: 0, batches: 0, refused: [] }
  readonly #loaded: LoadedOutbox
  readonly #plan: Plan
  readonly #options: MoveOptions
  readonly #transactions: Transactions<unknown, Sql>
  readonly #problemOf: (draft: Draft) => string | null
  readonly #left = new Set<string>()
  /** Batches whose rows were all gone when they were looked for. */
  #empty = 0

  constructor(loaded: LoadedOutbox, plan: Plan, options: MoveOptions) {
    this.#loaded = loaded
    this.#plan = plan
    this.#options = options
    this.#transactions = loaded.host.store.transactions as Transactions<unknown, Sql>
    this.#problemOf = checker(loaded)
  }

  async run(): Promise<Moved> {
    let before = ''
    for (;;) {
      const limit = LISTED + this.#left.size
      const listed = await asking(this.#loaded, (sql) => listRows(sql, this.#plan.reading, limit))
      const rows = listed.filter(({ id }) => id === null || !this.#left.has(id.text))
      if (rows.length === 0) return this.moved
      const now = `${rows[0]?.id?.text} ${this.moved.batches - this.#empty}`
      // A number that is not exact, for example, is not found by its own text.
      if (now === before)
        throw conflict(
          `rows of ${this.#plan.source} are not found again by their ${this.#plan.reading.id.name}`,
        )
      before = now
      for (const batch of batchesOf(rows, this.#plan, this.#options.batchSize)) {
        this.#stopHere()
        await this.#move(batch).catch((error: unknown) => {
          throw (error as { readonly code?: unknown }).code === ERROR_CODES.storeBusy
            ? this.#locked(error)
            : error
        })
      }
    }
  }

  #stopHere(): void {
    if (!this.#options.signal.aborted) return
    this.#options.progress.end()
    throw new Interrupted(
      `stopped: ${count(this.moved.moved, 'row')} moved, the rest is where it was; run it again to go on`,
      { dryRun: false, moved: this.moved.moved, known: this.moved.known },
    )
  }

  async #move(ids: readonly RowId[]): Promise<void> {
    const { outbox } = this.#loaded
    const { moved } = this
    const { progress, total } = this.#options
    const publisher = outbox.via(this.#transactions)
    progress.update(moved.moved, Math.max(total, moved.moved))
    const there = this.#options.skipKnown ? await this.#knownOf(ids) : new Set<string>()
    const result = await publisher.transaction(async (tx) => {
      const sql = this.#transactions.executor(tx)
      await boundLocks(sql, this.#plan.reading.kind)
      // Whatever the old worker finished meanwhile is not among them any more.
      const rows = await readRows(sql, this.#plan.reading, ids, true)
      if (new Set(rows.map(({ id }) => id.text)).size < rows.length) throw this.#notUnique()
      const { good, bad } = sortOut(rows, this.#plan, this.#problemOf)
      this.#judge(bad)
      this.#judgeTypes(good)
      if (good.length === 0) return { stored: 0, known: 0, bad }
      const drafts = good.flatMap(({ draft }) => (there.has(draft.id ?? '') ? [] : [draft]))
      const publish = async (): Promise<void> => {
        await publisher.publishMany(tx, drafts)
        // An event may wait for the next statement, and what the other table refuses is something else.
        await sql.run('SELECT 1', [])
      }
      const stored = await countStored(publish).catch((error: unknown) => {
        throw (error as { readonly code?: unknown }).code === ERROR_CODES.conflict
          ? this.#alreadyThere()
          : error
      })
      if (stored < good.length && !this.#options.skipKnown) throw this.#alreadyThere()
      await this.#finish(
        sql,
        good.map(({ row }) => row.id),
      )
      return { stored, known: good.length - stored, bad }
    })
    moved.moved += result.stored
    moved.known += result.known
    moved.batches += 1
    if (result.stored + result.known + result.bad.length === 0) this.#empty += 1
    for (const { id, reason } of result.bad) {
      this.#left.add(id)
      moved.refused.push({ id, reason })
    }
    progress.update(moved.moved, Math.max(total, moved.moved))
  }

  async #finish(sql: Sql, ids: readonly RowId[]): Promise<void> {
    const { reading, source, done } = this.#plan
    const finished = await finishRows(sql, reading, ids, done)
    if (finished !== ids.length) throw this.#notUnique()
    const unfinished = await unfinishedOf(sql, reading, ids)
    if (unfinished > 0)
      throw conflict(
        `${count(unfinished, 'row')} of ${source} would still be unfinished after being told otherwise, and be moved again; --done must change what --pending looks at. Nothing of this batch was moved`,
      )
  }

  #judge(bad: readonly Refused[]): void {
    const [first] = bad
    if (first === undefined) return
    if (!this.#options.skipInvalid)
      throw conflict(
        `row ${first.id} of ${this.#plan.source} cannot become an event: ${first.reason.replace(/\.$/, '')}. Nothing of its batch was moved; repair it, or leave such rows where they are with --skip-invalid`,
      )
    if (this.#left.size + bad.length > REFUSED_MOST)
      throw conflict(`more than ${count(REFUSED_MOST, 'row')} cannot become events; is the mapping right?`)
  }

  /** They were all heard when it began; the application may have written others since. */
  #judgeTypes(good: readonly Checked[]): void {
    const { isHeard } = this.#options
    const unheard = isHeard === null ? undefined : good.find(({ draft }) => !isHeard(String(draft.type)))
    if (unheard !== undefined)
      throw conflict(
        `no destination hears "${unheard.draft.type}", the type of row ${unheard.row.id.text} of ${this.#plan.source}. Nothing of its batch was moved; declare one, or move such rows with --allow-unheard`,
      )
  }

  #locked(cause: unknown): OutboxError {
    return new OutboxError(
      ERROR_CODES.storeBusy,
      `somebody keeps rows of ${this.#plan.source} locked: a worker of the old system that was not stopped, most likely. Nothing of this batch was moved; stop it, and run this again`,
      { cause },
    )
  }

  #notUnique(): OutboxError {
    const { source, reading } = this.#plan
    return conflict(
      `${reading.id.name} of ${source} does not tell one row from another, or a trigger keeps rows from being changed. Nothing of this batch was moved`,
    )
  }

  /** Asked before the transaction: an id that is there already would end it. */
  async #knownOf(ids: readonly RowId[]): Promise<ReadonlySet<string>> {
    const known = new Set<string>()
    for (const id of ids) {
      const uuid = uuidOf(id)
      if (uuid !== null && (await this.#loaded.outbox.inspect.event(uuid)) !== null) known.add(uuid)
    }
    return known
  }

  #alreadyThere(): OutboxError {
    return conflict(
      `rows of a batch of ${this.#plan.source} are in the outbox already, by id or idempotency key. Nothing of this batch was moved; if that is right, --skip-known marks such rows as done`,
    )
  }
}

export const moveRows = async (loaded: LoadedOutbox, plan: Plan, options: MoveOptions): Promise<Moved> =>
  await new Mover(loaded, plan, options).run()
