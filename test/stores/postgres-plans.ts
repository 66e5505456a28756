/** Rows to plan for, and plans as the server tells them. */
import pg from 'pg'
import { lowestIdAt } from '../../src/stores/postgres/periods.ts'
import { newId } from './postgres-words.ts'

export interface Sent {
  readonly text: string
  readonly values: readonly unknown[]
  /** What is set for its transaction alone. */
  readonly settings?: readonly string[]
}

/** Of a script that has settings for its own statements, these; anything else as it is. */
export const statementsIn = (sent: Sent): readonly Sent[] => {
  const parts = sent.text.split(';\n')
  const settings = parts.filter((part) => part.startsWith('SET LOCAL'))
  if (settings.length === 0) return [sent]
  return parts.filter((part) => !part.startsWith('SET')).map((text) => ({ text, values: [], settings }))
}

interface Node {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Shared Hit Blocks'?: number
  readonly 'Shared Read Blocks'?: number
  readonly Plans?: readonly Node[]
  readonly 'Actual Loops'?: number
  readonly 'Rows Removed by Join Filter'?: number
}

export interface Plan {
  readonly root: Node
  /** Pages looked at, in memory or not. */
  readonly buffers: number
}

const literal = (value: unknown): string => (value === null ? 'NULL' : pg.escapeLiteral(String(value)))

const explain = async (hand: pg.Client, name: string, { values }: Sent): Promise<Plan> => {
  const args = values.length === 0 ? '' : `(${values.map(literal).join(', ')})`
  const { rows } = await hand.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE ${name}${args}`)
  const root = rows[0]['QUERY PLAN'][0].Plan as Node
  return { root, buffers: buffersOf(root) }
}

const begin = ({ settings = [] }: Sent): string =>
  ['BEGIN', 'SET LOCAL plan_cache_mode = force_generic_plan', ...settings].join('; ')

/** Really run, as a prepared statement with a plan for any parameters, and taken back. */
export const planOf = async (hand: pg.Client, sent: Sent): Promise<Plan> => {
  await hand.query(begin(sent))
  try {
    await hand.query(`PREPARE planned AS ${sent.text}`)
    return await explain(hand, 'planned', sent)
  } finally {
    await hand.query('ROLLBACK')
    await hand.query('DEALLOCATE ALL')
  }
}

/** Statements of one connection: each is planned when it is met first, and that plan is kept whatever becomes of the tables. */
export class KeptPlans {
  readonly #client: pg.Client
  readonly #names = new Map<string, string>()

  constructor(client: pg.Client) {
    this.#client = client
  }

  readonly planOf = async (sent: Sent): Promise<Plan> => {
    const kept = this.#names.get(sent.text)
    if (kept !== undefined) return await this.#run(kept, sent)
    const name = `kept_${this.#names.size}`
    this.#names.set(sent.text, name)
    await this.#client.query(`PREPARE ${name} AS ${sent.text}`)
    return await this.#run(name, sent)
  }

  async #run(name: string, sent: Sent): Promise<Plan> {
    await this.#client.query(begin(sent))
    try {
      return await explain(this.#client, name, sent)
    } finally {
      await this.#client.query('ROLLBACK')
    }
  }
}

/** What a modifying part of a statement costs is not always counted in its parent, so the dearest node counts. */
const buffersOf = (node: Node): number => {
  const own = (node['Shared Hit Blocks'] ?? 0) + (node['Shared Read Blocks'] ?? 0)
  return Math.max(own, ...(node.Plans ?? []).map(buffersOf))
}

/** Tables that are read from end to end; what was planned and never run does not count. */
export const tablesScanned = ({ root }: Plan): string[] => {
  const found: string[] = []
  const visit = (node: Node): void => {
    if (node['Node Type'] === 'Seq Scan' && (node['Actual Loops'] ?? 0) > 0)
      found.push(node['Relation Name'] ?? '')
    for (const child of node.Plans ?? []) visit(child)
  }
  visit(root)
  return found
}

/** Pairs of rows that were compared and do not belong together: each with each, where an index would have found the right one. */
export const pairsInVain = ({ root }: Plan): number => {
  const visit = (node: Node): number =>
    (node['Rows Removed by Join Filter'] ?? 0) * (node['Actual Loops'] ?? 1) +
    (node.Plans ?? []).reduce((sum, child) => sum + visit(child), 0)
  return visit(root)
}

export interface Filled {
  readonly worker: string
  readonly pending: readonly string[]
  readonly keyed: readonly string[]
  readonly middleSeq: bigint
}

/** Ids that grow with `n`, of events that happened so long ago. */
const idsOf = (agoMs: number) => (n: string, kind: string) =>
  `(substr('${lowestIdAt(Date.now() - agoMs)}', 1, 14) || '7' || lpad(to_hex((${n} >> 24) & 4095), 3, '0') || '-8' || '${kind}' || lpad(to_hex((${n} >> 12) & 255), 2, '0') || '-' || lpad(to_hex(${n}), 12, '0'))::uuid`

const QUEUE_AGO_MS = 3_600_000
/** Earlier by more than filling takes. */
const HISTORY_AGO_MS = QUEUE_AGO_MS + 900_000

/** History, and on the first call a queue with rows of every state. */
export const fill = async (
  hand: pg.Client,
  schema: string,
  rows: number,
  { historyOnly = false }: { readonly historyOnly?: boolean } = {},
): Promise<Filled> => {
  const { rows: last } = await hand.query(`SELECT last_value FROM ${schema}.events_seq`)
  const from = Number(last[0].last_value) + 1
  const to = from + rows - 1
  const queued = historyOnly ? 0 : Math.min(4_000, rows)
  // History is older than what is queued: ids that are settled are the latest, and their place in an index is at its end.
  const id = idsOf(historyOnly ? HISTORY_AGO_MS : QUEUE_AGO_MS)
  await hand.query(`
    INSERT INTO ${schema}.events (id, seq, occurred_at, created_at, version, routes_version, size, type, key, content_type, payload)
    SELECT ${id('n', '0')}, n, now(), now(), 1, 1, 900, 'order.placed', 'k' || n % 500, 'application/json', json_build_object('text', repeat('x', 880))
    FROM generate_series(${from}, ${to}) AS n;
    INSERT INTO ${schema}.finished (id, event_id, seq, created_at, finished_at, size, run, attempts, suspicions, lane, status, destination, key, settled_by)
    SELECT ${id('n', '1')}, ${id('n', '0')}, n, now(), now(), 900, 1, 0, 0, n % 64, 1, 'alpha', 'k' || n % 500, 'w'
    FROM generate_series(${from}, ${to - queued}) AS n;
    INSERT INTO ${schema}.deliveries (id, event_id, seq, available_at, created_at, settled_at, size, run, lane, status, holds_key, destination, key)
    SELECT ${id('n', '2')}, ${id('n', '0')}, n, now() - interval '1 second', now(), CASE WHEN n % 40 = 3 THEN now() END, 900, 1, n % 64,
      CASE n % 40 WHEN 1 THEN 2 WHEN 2 THEN 5 WHEN 3 THEN 3 WHEN 4 THEN 6 ELSE 0 END, n % 40 IN (1, 4), 'alpha', 'k' || n % 500
    FROM generate_series(${to - queued + 1}, ${to}) AS n;
    SELECT setval('${schema}.events_seq', ${to})`)
  await hand.query(`
    INSERT INTO ${schema}.dedup (type, idempotency_key, event_id, created_at)
    SELECT 'order.placed', 'i' || n, ${id('n', '0')}, now() - interval '1 millisecond' * (${to} - n) FROM generate_series(${from}, ${to}) AS n`)
  const worker = newId()
  await hand.query(
    `INSERT INTO ${schema}.workers (id, name, started_at, expires_at, destinations) VALUES ($1, 'w', now(), now() + interval '1 day', '{alpha}')`,
    [worker],
  )
  const found = await hand.query(
    `SELECT id, key FROM ${schema}.deliveries WHERE status = 0 ORDER BY seq DESC LIMIT 50`,
  )
  const ids = found.rows.map((row) => row.id as string)
  return { worker, pending: ids, keyed: ids, middleSeq: BigInt(to - Math.floor(queued / 2)) }
}
