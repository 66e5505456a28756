/**
 * Pages of deliveries from both tables. The order is that of the delivery ids, which grow with time and are
 * the primary key of both, so a page is a walk along it. States that are rare among many rows are walked in the
 * index by status.
 */
import { InvalidOptionError } from '../../../core/errors.ts'
import { DELIVERY_STATUS, type DeliveryStatus, isUuid, uuidToBytes } from '../../../core/model/index.ts'
import type { DeliveryPage, DeliveryQuery, DeliveryView } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlValue } from '../../sql/sql-executor.ts'
import type { MysqlDatabase } from '../database.ts'
import { decodeView, viewSelect } from './delivery-view.ts'
import { earlier, NOW, one } from './sql-text.ts'

const UNFINISHED: readonly DeliveryStatus[] = ['pending', 'retry', 'dead', 'scheduled', 'held']
const FINISHED: readonly DeliveryStatus[] = ['done', 'discarded']

interface Walk {
  readonly table: 'deliveries' | 'finished'
  readonly hint: string
  readonly where: string
}

const PRIMARY = ' FORCE INDEX (PRIMARY)'
const BY_STATUS = ' FORCE INDEX (by_status)'

/**
 * One walk per table, or one per state where those are a small part of it. Finished ones first: with the events beside them
 * that is all that may be moved (see `MysqlDatabase.snapshot`).
 */
const walksOf = (wanted: ReadonlySet<DeliveryStatus>): readonly Walk[] => {
  const unfinished = UNFINISHED.filter((status) => wanted.has(status))
  const finished = FINISHED.filter((status) => wanted.has(status))
  const single = (status: DeliveryStatus): string => `d.status = ${DELIVERY_STATUS[status]}`
  const either = (statuses: readonly DeliveryStatus[]): string =>
    `d.status IN (${statuses.map((status) => DELIVERY_STATUS[status]).join(', ')})`
  const walks: Walk[] = []
  if (finished.includes('done')) walks.push({ table: 'finished', hint: PRIMARY, where: either(finished) })
  else if (finished.length > 0) walks.push({ table: 'finished', hint: BY_STATUS, where: single('discarded') })
  if (unfinished.length === UNFINISHED.length)
    walks.push({ table: 'deliveries', hint: PRIMARY, where: either(unfinished) })
  else
    for (const status of unfinished)
      walks.push({ table: 'deliveries', hint: BY_STATUS, where: single(status) })
  return walks
}

const LOWEST = new Uint8Array(16)
const HIGHEST = new Uint8Array(16).fill(255)

const cursorOf = (query: DeliveryQuery): Uint8Array => {
  if (query.after === undefined) return query.order === 'oldest' ? LOWEST : HIGHEST
  if (isUuid(query.after)) return uuidToBytes(query.after)
  throw new InvalidOptionError('after must be the `next` of an earlier page', {
    option: 'after',
    value: query.after,
  })
}

/** The statement's columns are fixed; only values come from outside. */
const filtersOf = (
  query: DeliveryQuery,
): { readonly where: string; readonly params: readonly SqlValue[] } => {
  const filters: [string, SqlValue][] = []
  if (query.destination !== undefined) filters.push(['d.destination = ?', query.destination])
  if (query.key !== undefined) filters.push(['d.key = ?', query.key])
  if (query.type !== undefined) filters.push(['e.type = ?', query.type])
  if (query.tenantId !== undefined) filters.push(['e.tenant_id = ?', query.tenantId])
  if (query.olderThanMs !== undefined)
    filters.push([`d.created_at <= ${earlier(NOW, '?')}`, Math.trunc(query.olderThanMs)])
  if (query.newerThanMs !== undefined)
    filters.push([`d.created_at > ${earlier(NOW, '?')}`, Math.trunc(query.newerThanMs)])
  return {
    where: filters.map(([text]) => ` AND ${text}`).join(''),
    params: filters.map(([, value]) => value),
  }
}

const compareIds = (a: DeliveryView, b: DeliveryView): number => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)

export const list = async (db: MysqlDatabase, t: Tables, query: DeliveryQuery): Promise<DeliveryPage> => {
  const oldestFirst = query.order === 'oldest'
  const cursor = cursorOf(query)
  const { where, params } = filtersOf(query)
  const range = oldestFirst ? 'd.id > ? ORDER BY d.id' : 'd.id < ? ORDER BY d.id DESC'
  const walks = walksOf(new Set(query.status ?? [...UNFINISHED, ...FINISHED]))
  const answers = await db.snapshot(
    walks.map((walk) =>
      one(`${viewSelect(t, walk.table, walk.hint)}\nWHERE ${walk.where}${where} AND ${range} LIMIT ?`, [
        ...params,
        cursor,
        query.limit + 1,
      ]),
    ),
  )
  const found = answers.flatMap(({ rows }) => rows.map(decodeView))
  found.sort(oldestFirst ? compareIds : (a, b) => compareIds(b, a))
  const deliveries = found.slice(0, query.limit)
  return { deliveries, next: found.length > query.limit ? (deliveries.at(-1)?.id ?? null) : null }
}
