/**
 * Pages of deliveries from both tables. The order is that of the delivery ids, which grow with time and are
 * the primary key of both, so a page is a walk along it. States that are rare among many rows have an index
 * of their own for that walk.
 */
import { InvalidOptionError } from '../../../core/errors.ts'
import { DELIVERY_STATUS, type DeliveryStatus, isUuid } from '../../../core/model/index.ts'
import type { DeliveryPage, DeliveryQuery, DeliveryView } from '../../../core/spi/index.ts'
import type { SqlValue } from '../../sql/sql-executor.ts'
import type { PostgresDatabase } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { decodeView, viewSelect } from './delivery-view.ts'
import { ASIDE, MS, NOW } from './sql-text.ts'

const UNFINISHED: readonly DeliveryStatus[] = ['pending', 'retry', 'dead', 'scheduled', 'held']
const FINISHED: readonly DeliveryStatus[] = ['done', 'discarded']

interface Walk {
  readonly table: 'deliveries' | 'finished'
  readonly where: string
}

/** One walk per table, or one per state where that state has its own index. */
const walksOf = (wanted: ReadonlySet<DeliveryStatus>): readonly Walk[] => {
  const unfinished = UNFINISHED.filter((status) => wanted.has(status))
  const finished = FINISHED.filter((status) => wanted.has(status))
  const code = (status: DeliveryStatus): string => `d.status = ${DELIVERY_STATUS[status]}`
  const either = (statuses: readonly DeliveryStatus[]): string =>
    `d.status IN (${statuses.map((status) => DELIVERY_STATUS[status]).join(', ')})`
  const walks: Walk[] = []
  if (unfinished.includes('pending')) walks.push({ table: 'deliveries', where: either(unfinished) })
  else
    for (const status of unfinished)
      walks.push({ table: 'deliveries', where: `${code(status)} AND ${ASIDE}` })
  if (finished.includes('done')) walks.push({ table: 'finished', where: either(finished) })
  else if (finished.length > 0) walks.push({ table: 'finished', where: code('discarded') })
  return walks
}

const LOWEST = '00000000-0000-0000-0000-000000000000'
const HIGHEST = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

const cursorOf = (query: DeliveryQuery): string => {
  if (query.after === undefined) return query.order === 'oldest' ? LOWEST : HIGHEST
  if (isUuid(query.after)) return query.after
  throw new InvalidOptionError('after must be the `next` of an earlier page', {
    option: 'after',
    value: query.after,
  })
}

/** The statement's columns are fixed; only values come from outside, and those are bound. */
const filtersOf = (query: DeliveryQuery, params: SqlValue[]): string => {
  const filters: string[] = []
  const bind = (value: SqlValue): string => `$${params.push(value)}`
  if (query.destination !== undefined) filters.push(`d.destination = ${bind(query.destination)}`)
  if (query.key !== undefined) filters.push(`d.key = ${bind(query.key)}`)
  if (query.type !== undefined) filters.push(`e.type = ${bind(query.type)}`)
  if (query.tenantId !== undefined) filters.push(`e.tenant_id = ${bind(query.tenantId)}`)
  if (query.olderThanMs !== undefined)
    filters.push(`d.created_at <= ${NOW} - ${bind(query.olderThanMs)}::float8 * ${MS}`)
  if (query.newerThanMs !== undefined)
    filters.push(`d.created_at > ${NOW} - ${bind(query.newerThanMs)}::float8 * ${MS}`)
  return filters.map((text) => ` AND ${text}`).join('')
}

const compareIds = (a: DeliveryView, b: DeliveryView): number => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)

export const list = async (
  db: PostgresDatabase,
  t: PostgresTables,
  query: DeliveryQuery,
): Promise<DeliveryPage> => {
  const walks = walksOf(new Set(query.status ?? [...UNFINISHED, ...FINISHED]))
  if (walks.length === 0) return { deliveries: [], next: null }
  const oldestFirst = query.order === 'oldest'
  const params: SqlValue[] = [cursorOf(query), query.limit + 1]
  const where = filtersOf(query, params)
  const range = oldestFirst ? 'd.id > $1::uuid ORDER BY d.id' : 'd.id < $1::uuid ORDER BY d.id DESC'
  const parts = walks.map(
    (walk) => `(${viewSelect(t, walk.table)}\nWHERE ${walk.where}${where} AND ${range} LIMIT $2::int)`,
  )
  const found = (await db.rows(parts.join('\nUNION ALL\n'), params)).map(decodeView)
  found.sort(oldestFirst ? compareIds : (a, b) => compareIds(b, a))
  const deliveries = found.slice(0, query.limit)
  return { deliveries, next: found.length > query.limit ? (deliveries.at(-1)?.id ?? null) : null }
}
