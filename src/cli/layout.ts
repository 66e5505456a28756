/** Whether the tables were made as the option layout says: the store believes it, and asks nobody. */
import type { OutboxHost } from '../core/host.ts'
import { ask, tableName } from './probe.ts'

export type Layout = 'plain' | 'partitioned'

export interface LayoutComparison {
  /** What the store was told. */
  readonly given: Layout
  /** Tables that were made otherwise, and those that were made so; neither has what is not there, or is hidden from us. */
  readonly unlike: readonly string[]
  readonly alike: readonly string[]
}

/** Those of our tables that can have partitions. */
const TABLES = ['events', 'finished']

const SQL: Readonly<Record<string, string>> = {
  postgres: `SELECT given.name, (t.relkind = 'p')::int AS partitioned
FROM unnest(ARRAY[$1::text, $2::text]) AS given (name) JOIN pg_class AS t ON t.oid = to_regclass(given.name)`,
  mysql: `SELECT TABLE_NAME AS name, MAX(PARTITION_NAME IS NOT NULL) AS partitioned FROM information_schema.PARTITIONS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN (?, ?) GROUP BY TABLE_NAME`,
}

export const compareLayout = async (host: OutboxHost): Promise<LayoutComparison> => {
  const { store } = host
  const given = store.maintenance.partitions === undefined ? 'plain' : 'partitioned'
  const sql = SQL[store.name]
  if (sql === undefined) return { given, unlike: [], alike: [] }
  const quoted = TABLES.map((table) => tableName(host, table) ?? '')
  const names = store.name === 'mysql' ? quoted.map((name) => name.replaceAll('`', '')) : quoted
  const rows = await ask(host, sql, names)
  const named = (like: boolean): readonly string[] =>
    rows.flatMap(({ name, partitioned }) =>
      ((Number(partitioned) === 1) === (given === 'partitioned')) === like
        ? [String(name).replaceAll('"', '')]
        : [],
    )
  return { given, unlike: named(false), alike: named(true) }
}

export const listText = (tables: readonly string[]): string =>
  `${tables.join(' and ')} ${tables.length === 1 ? 'has' : 'have'}`

/** Null where both say the same. Only code says with "plain" that nobody looks after partitions. */
export const layoutTrouble = (
  { given, unlike }: LayoutComparison,
  hasCode: boolean,
): { readonly text: string; readonly remedy: string } | null => {
  if (unlike.length === 0) return null
  if (given === 'partitioned')
    return {
      text: `the configuration says "partitioned", but ${listText(unlike)} no partitions, so nothing is ever cleaned up`,
      remedy: layoutRemedy('plain'),
    }
  if (!hasCode) return null
  return {
    text: `the configuration says "plain", but ${listText(unlike)} partitions, and nobody makes new ones or drops old ones`,
    remedy: layoutRemedy('partitioned'),
  }
}

/** What to do where the tables were made so and the store was told otherwise. */
export const layoutRemedy = (made: Layout): string =>
  made === 'plain'
    ? 'set layout to "plain" in every process; migrate does not turn one into the other, so partitions want a second outbox (docs/upgrading.md)'
    : 'set layout to "partitioned" in every process, and period to what one partition holds'
