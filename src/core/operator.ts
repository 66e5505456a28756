/**
 * What a person or a script does to deliveries: look, send again, correct, give up, pause. Every act names who
 * did it and leaves an audit row. A delivery under a hot claim is left alone; one that a lane's owner handles at
 * this moment shows no mark in the database, so its effect may still happen after it was discarded.
 */

import { type Backfilled, type BackfillOptions, backfill, checkBackfill } from './backfill.ts'
import { type Act, BULK_NAMES, type BulkAct, inSteps } from './bulk.ts'
import { checkBoolean, optionalText, refuse, requireText } from './check-options.ts'
import { findRegistered } from './destinations.ts'
import { ERROR_CODES, InvalidOptionError, OutboxError } from './errors.ts'
import { reconcileAll } from './flow/maintainers/reconciler.ts'
import { type EventRecord, JSON_CONTENT_TYPE } from './model/event.ts'
import { checkHeaders } from './model/headers.ts'
import { checkBinary, serialisePayload } from './model/payload.ts'
import { shown } from './model/shown.ts'
import { refuseUnknown } from './model/unknown-names.ts'
import { isUuid } from './model/uuid.ts'
import { boundedNumber, DESTINATION_BOUNDS, type ResolvedOptions, TUNED_BOUNDS } from './options.ts'
import { checkPace } from './progress.ts'
import { type Retired, retire } from './retire.ts'
import type {
  CleanupResult,
  DestinationSettings,
  EventEdit,
  NewEvent,
  OperationKind,
  OperationTarget,
  OperatorAct,
  Runtime,
  Store,
} from './spi/index.ts'

/** A destination that this process declares, or any other that is registered. */
export type DestinationName<Names extends string = string> = Names | (string & Record<never, never>)

export type Target<Names extends string = string> = Omit<
  OperationTarget,
  'limit' | 'destination' | 'storedFromMs' | 'storedBeforeMs'
> & {
  readonly destination?: DestinationName<Names>
  /** Of events that were stored at this time or later, by the database's clock. */
  readonly since?: Date
  /** Of events that were stored before this time. */
  readonly until?: Date
  /** Most deliveries that one call acts on. Default 1,000; 1 to 100,000. */
  readonly limit?: number
}

/** Each as the option of the same name; null goes back to what the processes' own options say. */
export type Tune = Omit<DestinationSettings, 'paused'>

export interface CleanupOptions {
  /** Remove what finished before this time; default by the retention. */
  readonly before?: Date
  /** Most rows of each kind. Default 10,000; 1 to 1,000,000. */
  readonly limit?: number
  /** Also dead ones: by their own retention, which is the default, or with `before` only if this is true. */
  readonly includeDead?: boolean
}

export interface Operator<Names extends string = string> {
  /** Sends dead deliveries again, as a new run in their old place. Returns how many. */
  redrive(target: Target<Names>, act?: BulkAct): Promise<number>
  /** Sends done deliveries again, as a new run, unless one is unfinished or dead. Returns how many. */
  replay(target: Target<Names>, act?: BulkAct): Promise<number>
  /** Gives up dead or waiting deliveries. Returns how many. */
  discard(target: Target<Names>, act?: BulkAct): Promise<number>
  /** Replaces the event of a dead delivery by a corrected copy for that destination. Returns the new event's id. */
  edit(deliveryId: string, change: EventEdit, act?: Act): Promise<string>
  /** No process sends to the destination until `resume`; within a renewal everybody knows. */
  pause(destination: DestinationName<Names>, act?: Act): Promise<void>
  resume(destination: DestinationName<Names>, act?: Act): Promise<void>
  /** Deliveries per second and process, instead of what the options say; null goes back to the options. */
  setRate(destination: DestinationName<Names>, ratePerSecond: number | null, act?: Act): Promise<void>
  /**
   * Changes how every process works on a destination, while it runs. What is under way ends as it began. Within a renewal
   * everybody knows, this process before it returns.
   */
  tune(destination: DestinationName<Names>, settings: Tune, act?: Act): Promise<void>
  /**
   * Adds deliveries for stored events that are older than the destination and that it has never had, in order. May be
   * interrupted and run again, and by two at once: nothing is added twice.
   */
  backfill(destination: DestinationName<Names>, options: BackfillOptions, act?: Act): Promise<Backfilled>
  /**
   * A destination that is not served any more hears nothing from now on, and what waits for it or is dead is given up. Refused
   * while a live process serves it. Whoever declares it again brings it back, for events from then on.
   */
  retire(destination: DestinationName<Names>, act?: BulkAct): Promise<Retired>
  /** Removes what is past its retention, in batches; returns counts per kind. */
  cleanup(options?: CleanupOptions): Promise<CleanupResult>
}

export interface OperatorParts {
  readonly store: Store
  readonly options: ResolvedOptions
  readonly runtime: Runtime
  readonly newId: () => string
  readonly ready: () => Promise<void>
  /** Rows became due: this process may look at once. */
  readonly changed: () => Promise<void>
}

const HOUR_MS = 3_600_000
const DEFAULT_LIMIT = 1_000
const CLEANUP_STEP = 1_000

const TARGET_NAMES: ReadonlySet<string> = new Set<keyof Target>([
  'deliveryIds',
  'eventIds',
  'destination',
  'type',
  'key',
  'tenantId',
  'since',
  'until',
  'limit',
])
const ACT_NAMES: ReadonlySet<string> = new Set<keyof Act>(['actor', 'reason'])
const TUNE_NAMES: ReadonlySet<string> = new Set(['ratePerSecond', ...Object.keys(TUNED_BOUNDS)])
const EDIT_NAMES: ReadonlySet<string> = new Set<keyof EventEdit>(['payload', 'headers'])
const CLEANUP_NAMES: ReadonlySet<string> = new Set<keyof CleanupOptions>(['before', 'limit', 'includeDead'])

export const createOperator = (parts: OperatorParts): Operator => {
  const { store, options, runtime, ready, changed } = parts
  const actOf = (act: Act | undefined, names = ACT_NAMES): OperatorAct => {
    if (act === undefined || act === null) return { actor: runtime.processName, reason: null }
    refuseUnknown('act', act, names)
    const { actor, reason } = act
    return {
      actor: optionalText('actor', actor) ?? runtime.processName,
      reason: optionalText('reason', reason) ?? null,
    }
  }
  const bulkActOf = (act: BulkAct): OperatorAct => {
    const by = actOf(act, BULK_NAMES)
    checkBoolean('dryRun', act?.dryRun)
    checkPace(act ?? {})
    return by
  }
  const operate = async (kind: OperationKind, target: Target, act: BulkAct = {}): Promise<number> => {
    const checked = checkTarget(target)
    const by = bulkActOf(act)
    await ready()
    if (act?.dryRun === true) return (await store.operations.preview(kind, checked)).length
    const steps = act?.ratePerSecond ?? act?.onProgress ?? act?.signal
    if (steps !== undefined) return await inSteps({ store, runtime, changed }, kind, checked, act, by)
    const count = await store.operations[kind](checked, by)
    await changed()
    return count
  }
  const configure = async (
    name: string,
    change: DestinationSettings,
    act: Act | undefined,
  ): Promise<void> => {
    const by = actOf(act)
    requireText('destination', name)
    await ready()
    await findRegistered(store.registry, name)
    await store.registry.configure(name, change, by)
    await changed()
  }
  return {
    redrive: (target, act) => operate('redrive', target, act),
    replay: (target, act) => operate('replay', target, act),
    discard: (target, act) => operate('discard', target, act),
    pause: (destination, act) => configure(destination, { paused: true }, act),
    resume: (destination, act) => configure(destination, { paused: false }, act),
    setRate: async (destination, ratePerSecond, act) => {
      await configure(destination, checkTune({ ratePerSecond }), act)
    },
    tune: async (destination, settings, act) => configure(destination, checkTune(settings), act),
    async backfill(name, given, act) {
      requireText('destination', name)
      checkBackfill(given)
      const by = actOf(act)
      await ready()
      return await backfill(parts, name, given, by)
    },
    async retire(name, act) {
      requireText('destination', name)
      const by = bulkActOf(act ?? {})
      await ready()
      return await retire(parts, name, act ?? {}, by)
    },
    async edit(givenId, change, act) {
      const deliveryId = checkId('deliveryId', givenId)
      refuseUnknown('change', change, EDIT_NAMES)
      const by = actOf(act)
      await ready()
      const original = await findEvent(store, deliveryId)
      const replacement = applyEdit(original, change, options, parts.newId(), runtime.wallNow())
      await store.operations.edit(deliveryId, replacement, parts.newId(), by)
      await changed()
      return replacement.id
    },
    async cleanup(given = {}) {
      checkCleanup(given)
      const limit = boundedNumber('limit', given.limit ?? 10_000, [1, 1_000_000])
      await ready()
      let added = 0
      await reconcileAll(store, parts.newId, (_, count) => {
        added += count
      })
      if (added > 0) await changed()
      return await cleanupInSteps(store, options, runtime, given, limit)
    },
  }
}

/** In lower case, as ids are stored. */
const checkId = (option: string, value: unknown): string =>
  isUuid(value) ? value.toLowerCase() : refuse(option, value, `must be a UUID, not ${shown(value)}`)

const checkIds = (option: string, value: unknown): readonly string[] =>
  Array.isArray(value)
    ? value.map((id: unknown, index) => checkId(`${option}[${index}]`, id))
    : refuse(option, value, `must be a list of UUIDs, not ${shown(value)}`)

const isDate = (value: unknown): value is Date => value instanceof Date && !Number.isNaN(value.getTime())

/** Undefined is nothing said; but something has to be. */
const checkTune = (given: Tune): Tune => {
  refuseUnknown('tune', given, TUNE_NAMES)
  const said = Object.entries(given).filter(([, value]) => value !== undefined)
  if (said.length === 0) refuse('tune', given, `names nothing to change: ${[...TUNE_NAMES].join(', ')}`)
  for (const [name, value] of said) {
    if (value === null) continue
    if (name === 'ratePerSecond') boundedNumber(name, value, DESTINATION_BOUNDS.ratePerSecond, false)
    else boundedNumber(name, value, TUNED_BOUNDS[name as keyof typeof TUNED_BOUNDS])
  }
  return Object.fromEntries(said)
}

const checkCleanup = (given: CleanupOptions): void => {
  refuseUnknown('cleanup', given, CLEANUP_NAMES)
  const before: unknown = given.before
  if (before !== undefined && !isDate(before)) {
    refuse('before', before, 'must be a valid Date; leave it out to clean by the retention')
  }
  checkBoolean('includeDead', given.includeDead)
}

/** A name that is not known would be a filter that does not filter, so nothing is done with such a target. */
const checkTarget = (target: Target): OperationTarget => {
  refuseUnknown('target', target, TARGET_NAMES)
  const { limit = DEFAULT_LIMIT, ...filter } = target
  boundedNumber('limit', limit, [1, 100_000])
  for (const [name, value] of Object.entries(filter)) {
    // A variable that happens to be empty must not widen what is acted on.
    if (value !== undefined) continue
    throw new InvalidOptionError(`target.${name} is undefined; leave it out if every ${name} is meant`, {
      option: `target.${name}`,
      value,
    })
  }
  if (Object.keys(filter).length === 0) {
    throw new InvalidOptionError(
      'name what to act on: deliveryIds, eventIds, destination, type, key, tenantId, since or until',
      { option: 'target', value: target },
    )
  }
  const { deliveryIds, eventIds, since, until, ...texts } = filter
  for (const [name, value] of Object.entries(texts)) requireText(name, value)
  for (const [name, value] of Object.entries({ since, until }))
    if (value !== undefined && !isDate(value))
      refuse(name, value, `must be a valid Date, not ${shown(value)}`)
  return {
    ...texts,
    ...(since === undefined ? {} : { storedFromMs: since.getTime() }),
    ...(until === undefined ? {} : { storedBeforeMs: until.getTime() }),
    ...(deliveryIds === undefined ? {} : { deliveryIds: checkIds('deliveryIds', deliveryIds) }),
    ...(eventIds === undefined ? {} : { eventIds: checkIds('eventIds', eventIds) }),
    limit,
  }
}

const findEvent = async (store: Store, deliveryId: string): Promise<EventRecord> => {
  const found = await store.inspection.eventOfDelivery(deliveryId)
  if (found) return found
  throw new OutboxError(ERROR_CODES.notFound, `there is no delivery ${deliveryId}, or its event is gone`, {
    deliveryId,
  })
}

const applyEdit = (
  original: EventRecord,
  change: EventEdit,
  options: ResolvedOptions,
  id: string,
  nowMs: number,
): NewEvent => {
  const limits = { maxBytes: options.maxPayloadBytes, maxDepth: options.maxPayloadDepth }
  let { data, size, contentType } = original
  if (change.payload instanceof Uint8Array) {
    data = checkBinary(change.payload, limits)
    size = data.byteLength
  } else if (change.payload !== undefined) {
    const { text, bytes } = serialisePayload(change.payload, limits)
    data = text
    size = bytes
    contentType = JSON_CONTENT_TYPE
  }
  const headers = change.headers === undefined ? original.headers : checkHeaders(change.headers)
  return {
    ...original,
    id,
    data,
    size,
    contentType,
    headers,
    createdAtMs: nowMs,
    replacesId: original.id,
    routesVersion: 0,
    idempotencyKey: null,
  }
}

const cleanupInSteps = async (
  store: Store,
  options: ResolvedOptions,
  runtime: Runtime,
  given: CleanupOptions,
  limit: number,
): Promise<CleanupResult> => {
  const ageMs = given.before === undefined ? null : Math.max(0, runtime.wallNow() - given.before.getTime())
  const deadHours = options.retentionDeadHours
  const deadMs = ageMs ?? (deadHours === null ? null : deadHours * HOUR_MS)
  const sum = { done: 0, discarded: 0, dead: 0, events: 0, dedup: 0 }
  let more = true
  for (let left = limit; left > 0 && more; left -= CLEANUP_STEP) {
    const step = await store.maintenance.cleanup({
      doneOlderThanMs: ageMs ?? options.retentionDoneHours * HOUR_MS,
      deadOlderThanMs: (given.includeDead ?? given.before === undefined) ? deadMs : null,
      dedupOlderThanMs: options.retentionDedupHours * HOUR_MS,
      limit: Math.min(CLEANUP_STEP, left),
    })
    for (const kind of Object.keys(sum) as (keyof typeof sum)[]) sum[kind] += step[kind]
    more = step.more
    await runtime.yield()
  }
  return { ...sum, more }
}
