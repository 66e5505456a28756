/** The rows of the tables, and the orders in which they are looked at. */
import type { DeliveryStatus, EventRecord } from '../../core/model/index.ts'
import type { OpenBreakerView } from '../../core/spi/index.ts'

export interface EventRow {
  readonly record: EventRecord
  readonly seq: bigint
  readonly routesVersion: number
  /** Every delivery of it, of any run and state. */
  readonly deliveries: Set<DeliveryRow>
  /** Set by tests that need an event nobody can decode. */
  corrupt: boolean
}

/** One table for unfinished, dead and finished rows: which one a database would keep it in follows from the status. */
export interface DeliveryRow {
  readonly id: string
  readonly eventId: string
  /** A delayed row gets a new one when it is due. */
  seq: bigint
  readonly destination: string
  readonly run: number
  readonly lane: number
  readonly key: string | null
  readonly size: number
  readonly createdAtMs: number
  status: DeliveryStatus
  attempts: number
  suspicions: number
  availableAtMs: number
  token: string | null
  holdsKey: boolean
  /** A dead head that waits for an operator on purpose. */
  parked: boolean
  /** Token or worker id by which it was last settled, so that a repeated settle is recognised. */
  settledBy: string | null
  /** When it became done, dead or discarded. */
  endedAtMs: number | null
  lastError: string | null
}

export interface WorkerRow {
  readonly id: string
  readonly name: string
  readonly startedAtMs: number
  readonly destinations: readonly string[]
  readonly leaseMs: number
  expiresAtMs: number
  /** How often it renewed. */
  renewals: number
  fenced: boolean
  openBreakers: readonly OpenBreakerView[]
}

export const newDeliveryRow = (
  fields: Pick<
    DeliveryRow,
    'id' | 'eventId' | 'seq' | 'destination' | 'lane' | 'key' | 'size' | 'createdAtMs'
  > &
    Partial<DeliveryRow>,
): DeliveryRow => ({
  run: 1,
  status: 'pending',
  attempts: 0,
  suspicions: 0,
  availableAtMs: fields.createdAtMs,
  token: null,
  holdsKey: false,
  parked: false,
  settledBy: null,
  endedAtMs: null,
  lastError: null,
  ...fields,
})

export const isUnfinished = ({ status }: DeliveryRow): boolean =>
  status === 'pending' || status === 'retry' || status === 'scheduled' || status === 'held'

/** A suspect's token is no claim: it says only who was counted. */
export const isUnderHotClaim = (row: DeliveryRow, now: number): boolean =>
  row.status === 'pending' && row.token !== null && row.suspicions === 0 && row.availableAtMs > now

/**
 * Whether it may be sent now. A pending row that nobody claimed is due whatever its time says: otherwise a
 * clock that steps back would hide it.
 */
export const isDue = (row: DeliveryRow, now: number): boolean =>
  row.status === 'pending' ? !isUnderHotClaim(row, now) : row.availableAtMs <= now

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

interface Position {
  readonly seq: bigint
  readonly id: string
}

export const bySeq = (a: Position, b: Position): number =>
  a.seq < b.seq ? -1 : a.seq > b.seq ? 1 : compareText(a.id, b.id)

export const byDueTime = (a: DeliveryRow, b: DeliveryRow): number =>
  a.availableAtMs - b.availableAtMs || bySeq(a, b)

export const byEnd = (a: DeliveryRow, b: DeliveryRow): number =>
  (a.endedAtMs ?? 0) - (b.endedAtMs ?? 0) || bySeq(a, b)

export const eventsBySeq = (a: EventRow, b: EventRow): number =>
  a.seq < b.seq ? -1 : a.seq > b.seq ? 1 : compareText(a.record.id, b.record.id)

export const eventsByAge = (a: EventRow, b: EventRow): number =>
  a.record.createdAtMs - b.record.createdAtMs || eventsBySeq(a, b)
