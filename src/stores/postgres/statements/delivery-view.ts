/** A delivery as an operator sees it, from either table. */
import { statusName } from '../../../core/model/index.ts'
import type { DeliveryView } from '../../../core/spi/index.ts'
import type { Row } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { asBigInt, asMs, asNumber, asNumberOrNull, asText, asTextOrNull, eventOf } from './sql-text.ts'

const SHARED = `d.id, d.event_id, d.seq, d.destination, d.run, d.lane, d.key, d.status, d.attempts, d.suspicions, ${asMs('d.created_at')}`

/** Columns in the order that `decodeView` expects; `from` is one of the two tables. */
export const viewSelect = (t: PostgresTables, from: 'deliveries' | 'finished'): string => {
  const times =
    from === 'deliveries'
      ? `CASE d.status WHEN 3 THEN NULL ELSE ${asMs('d.available_at')} END, NULL::bigint`
      : `NULL::bigint, ${asMs('d.finished_at')}`
  const died =
    from === 'deliveries' ? `CASE d.status WHEN 3 THEN ${asMs('d.settled_at')} END` : 'NULL::bigint'
  return `SELECT ${SHARED}, ${times}, e.type, e.tenant_id, e.aggregate_type, e.aggregate_id,
  (SELECT a.message FROM ${t.attempts} AS a WHERE a.delivery_id = d.id ORDER BY a.attempt DESC LIMIT 1), ${died}, d.settled_by
FROM ${t[from]} AS d LEFT JOIN ${eventOf(t, 'd.event_id')} ON true`
}

export const decodeView = (row: Row): DeliveryView => ({
  id: asText(row[0]),
  eventId: asText(row[1]),
  seq: asBigInt(row[2]),
  destination: asText(row[3]),
  run: asNumber(row[4]),
  lane: asNumber(row[5]),
  key: asTextOrNull(row[6]),
  status: statusName(asNumber(row[7])),
  attempts: asNumber(row[8]),
  suspicions: asNumber(row[9]),
  createdAtMs: asNumber(row[10]),
  availableAtMs: asNumberOrNull(row[11]),
  finishedAtMs: asNumberOrNull(row[12]),
  // An orphan has no event any more; it is shown nevertheless.
  type: asTextOrNull(row[13]) ?? '',
  tenantId: asTextOrNull(row[14]),
  aggregateType: asTextOrNull(row[15]),
  aggregateId: asTextOrNull(row[16]),
  lastError: asTextOrNull(row[17]),
  diedAtMs: asNumberOrNull(row[18]),
  settledBy: asTextOrNull(row[19]),
})
