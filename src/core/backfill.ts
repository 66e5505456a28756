/**
 * Gives a destination the stored events that are older than it: in the order of their positions, in bounded steps, at a
 * bounded pace. What is newer than a pattern of the destination is none of its business: publishers and the reconciler bring
 * that. An event for which the destination has any delivery is left alone, so whatever was interrupted is simply begun again.
 */
import { refuse } from './check-options.ts'
import { findRegistered } from './destinations.ts'
import { ERROR_CODES, OutboxError } from './errors.ts'
import { laneOf } from './model/lane.ts'
import { shown } from './model/shown.ts'
import { refuseUnknown } from './model/unknown-names.ts'
import { boundedNumber, type EventPattern, patternText } from './options.ts'
import { compilePattern, matches, type Pattern } from './policy/routing.ts'
import { checkPace, type PaceOptions, pauseFor, stepSize } from './progress.ts'
import type {
  OperatorAct,
  RegisteredDestination,
  Registry,
  Runtime,
  Store,
  UnheardBatch,
} from './spi/index.ts'

export interface BackfillOptions extends PaceOptions<BackfillProgress> {
  /** Events that were stored at this time or later, by the database's clock. */
  readonly since: Date
  /** And before this time; default: whatever is older than the destination. */
  readonly until?: Date
  /** Definitions, types, `order.*` or `*`, of those that the destination hears. Default: all of these. */
  readonly types?: readonly EventPattern[]
  /** Deliveries added per second. Default 1,000; 0.001 to 10,000,000. */
  readonly ratePerSecond?: number
  /** Most deliveries that one call adds. Default: all; 1 to 1,000,000,000. */
  readonly limit?: number
}

export interface BackfillProgress {
  /** Stored events that were looked at. */
  readonly scanned: number
  /** Deliveries that were added. */
  readonly added: number
  /** How far it is, from 0 to 1, by positions. */
  readonly share: number
}

export interface Backfilled {
  readonly scanned: number
  readonly added: number
  /** Nothing is left to add. If not: the limit was reached, the signal was given, or a warning says why. */
  readonly complete: boolean
  /** What a person should know, in sentences. */
  readonly warnings: readonly string[]
}

interface BackfillParts {
  readonly store: Store
  readonly runtime: Runtime
  readonly newId: () => string
  /** Rows became due. */
  readonly changed: () => Promise<void>
}

const NAMES: ReadonlySet<string> = new Set<keyof BackfillOptions>([
  'since',
  'until',
  'types',
  'ratePerSecond',
  'limit',
  'onProgress',
  'signal',
])
const DEFAULT_RATE = 1_000
const MOST_LIMIT = 1_000_000_000
/** Events that one step looks at. */
const STEP = 500
/** A clock may have been set back meanwhile, so the beginning is looked for this much earlier. */
const CLOCK_SLACK_MS = 3_600_000
/** Transactions that were open when their positions were passed get this long to end. */
const SETTLE_TRIES = 20
const SETTLE_PAUSE_MS = 250

export const checkBackfill = (given: BackfillOptions): void => {
  refuseUnknown('backfill', given, NAMES)
  for (const name of ['since', 'until'] as const) {
    const value: unknown = given[name]
    if (name === 'until' && value === undefined) continue
    if (!(value instanceof Date) || Number.isNaN(value.getTime()))
      refuse(name, value, `must be a valid Date, not ${shown(value)}`)
  }
  const { types, limit } = given
  if (types !== undefined && (!Array.isArray(types) || types.length === 0))
    refuse('types', types, 'must be a list of definitions, types, "order.*" or "*", and not be empty')
  if (limit !== undefined) boundedNumber('limit', limit, [1, MOST_LIMIT])
  checkPace(given)
}

interface Scope {
  readonly name: string
  readonly isWanted: (event: UnheardBatch['events'][number]) => boolean
  readonly after: bigint
  readonly upTo: bigint
  /** For the audit. */
  readonly told: { readonly since: Date; readonly until?: Date; readonly types: readonly string[] }
}

export const backfill = async (
  parts: BackfillParts,
  name: string,
  given: BackfillOptions,
  act: OperatorAct,
): Promise<Backfilled> => {
  const { registry } = parts.store
  const before = await findRegistered(registry, name)
  if (before.patterns.length === 0) {
    throw new OutboxError(
      ERROR_CODES.conflict,
      `"${name}" hears nothing, as after retire; start a process that declares what it hears first`,
      { destination: name },
    )
  }
  const scope = await scopeOf(registry, before, given)
  const walked = await new Walk(parts, scope, given, act).run()
  const after = await findRegistered(registry, name)
  const warnings = [...walked.warnings]
  if (walked.added > 0 && !(before.paused && after.paused)) {
    warnings.push(
      `"${name}" was not paused all the time, so what was added has no order against live events; ` +
        'where the order of a key matters, declare a new destination with paused: true and resume it afterwards',
    )
  }
  return { ...walked, warnings }
}

const overlap = (a: Pattern, b: Pattern): boolean => covers(a, b) || covers(b, a)

const covers = (wide: Pattern, narrow: Pattern): boolean => {
  if (wide.kind === 'any') return true
  if (narrow.kind === 'exact') return matches(wide, narrow.type)
  return wide.kind === 'prefix' && narrow.kind === 'prefix' && narrow.prefix.startsWith(wide.prefix)
}

const scopeOf = async (
  registry: Registry,
  { name, patterns, patternsFrom }: RegisteredDestination,
  { since, until, types }: BackfillOptions,
): Promise<Scope> => {
  const wanted = types?.map(patternText) ?? patterns
  const asked = wanted.map(compilePattern)
  const heard = patterns.map((pattern, i) => ({ is: compilePattern(pattern), from: patternsFrom[i] ?? 0n }))
  for (const [i, pattern] of asked.entries()) {
    if (heard.some(({ is }) => overlap(is, pattern))) continue
    refuse('types', wanted[i], `"${wanted[i]}" is not among what "${name}" hears: ${patterns.join(', ')}`)
  }
  const upTo = heard
    .filter(({ is }) => asked.some((pattern) => overlap(is, pattern)))
    .reduce((highest, { from }) => (from > highest ? from : highest), 0n)
  const [sinceMs, untilMs] = [since.getTime(), until?.getTime() ?? Number.POSITIVE_INFINITY]
  const first = await seek(registry, sinceMs - CLOCK_SLACK_MS, upTo)
  const last = until === undefined ? upTo : await seek(registry, untilMs + CLOCK_SLACK_MS, upTo)
  return {
    name,
    // Newer than one of its patterns is what publishers or the reconciler bring.
    isWanted: ({ type, seq, createdAtMs }) => {
      const hearing = heard.filter(({ is }) => matches(is, type))
      return (
        createdAtMs >= sinceMs &&
        createdAtMs < untilMs &&
        asked.some((pattern) => matches(pattern, type)) &&
        hearing.length > 0 &&
        hearing.every(({ from }) => seq <= from)
      )
    },
    after: first - 1n,
    upTo: last < upTo ? last : upTo,
    told: { since, ...(until === undefined ? {} : { until }), types: wanted },
  }
}

/** Nothing before this position was stored at that time or later, as far as the clock went forward. */
const seek = async (registry: Registry, atMs: number, upTo: bigint): Promise<bigint> => {
  const first = await registry.eventFrom(0n)
  let [low, high] = [first?.seq ?? upTo + 1n, upTo + 1n]
  while (low < high) {
    const middle = (low + high) / 2n
    const found = await registry.eventFrom(middle)
    if (found === null || found.seq >= high || found.createdAtMs >= atMs) high = middle
    else low = found.seq + 1n
  }
  return low
}

class Walk {
  readonly #parts: BackfillParts
  readonly #scope: Scope
  readonly #given: BackfillOptions
  readonly #act: OperatorAct
  readonly #rate: number
  #scanned = 0
  #added = 0
  #recorded = false

  constructor(parts: BackfillParts, scope: Scope, given: BackfillOptions, act: OperatorAct) {
    this.#parts = parts
    this.#scope = scope
    this.#given = given
    this.#act = act
    this.#rate = given.ratePerSecond ?? DEFAULT_RATE
  }

  async run(): Promise<Backfilled> {
    const end = await this.#walk()
    if (!this.#recorded) await this.#add([])
    const warnings =
      end === 'unsettled'
        ? [
            'transactions that began before the destination may still be open, and their events are not there yet; ' +
              'run this again later',
          ]
        : []
    return { scanned: this.#scanned, added: this.#added, complete: end === 'complete', warnings }
  }

  async #walk(): Promise<'complete' | 'cut' | 'unsettled'> {
    const { runtime, store } = this.#parts
    const { name, upTo } = this.#scope
    const { limit = MOST_LIMIT, signal } = this.#given
    const step = stepSize(this.#rate, STEP)
    let { after } = this.#scope
    /** From here on something may have been passed that was not committed. */
    let unsettled: bigint | null = null
    for (let tries = 0; after < upTo; ) {
      if (signal?.aborted === true) return 'cut'
      const startedAt = runtime.monotonicNow()
      const batch = await store.registry.findUnheard({ destination: name, after, upTo, limit: step })
      const wanted = batch.events.filter(this.#scope.isWanted)
      const left = limit - this.#added
      const chosen = wanted.slice(0, left)
      const added = chosen.length === 0 ? 0 : await this.#add(chosen)
      if (tries === 0) this.#scanned += batch.scanned
      this.#tell(batch.scannedTo)
      if (wanted.length > left) return 'cut'
      if (batch.settledTo < batch.scannedTo) unsettled ??= batch.settledTo > after ? batch.settledTo : after
      after = batch.scannedTo
      if (after >= upTo && unsettled !== null) {
        tries += 1
        if (tries > SETTLE_TRIES) return 'unsettled'
        after = unsettled
        unsettled = null
        await pauseFor(runtime, SETTLE_PAUSE_MS, signal)
      }
      const waitMs = (added / this.#rate) * 1_000 - (runtime.monotonicNow() - startedAt)
      if (waitMs > 0) await pauseFor(runtime, waitMs, signal)
      else await runtime.yield()
    }
    return 'complete'
  }

  async #add(events: UnheardBatch['events']): Promise<number> {
    const { store, newId, changed } = this.#parts
    const { name, told } = this.#scope
    const deliveries = events.map(({ id, seq, key, size }) => ({
      id: newId(),
      eventId: id,
      destination: name,
      lane: laneOf(key ?? id),
      key,
      size,
      seq,
    }))
    const added = await store.operations.backfill(name, deliveries, told, this.#act)
    this.#recorded = true
    this.#added += added
    if (added > 0) await changed()
    return added
  }

  #tell(position: bigint): void {
    const { after, upTo } = this.#scope
    const share = upTo <= after ? 1 : Number(position - after) / Number(upTo - after)
    this.#given.onProgress?.({ scanned: this.#scanned, added: this.#added, share: Math.min(1, share) })
  }
}
