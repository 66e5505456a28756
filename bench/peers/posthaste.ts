/** Posthaste as it is published: the built package, on PostgreSQL. */
import pg from 'pg'
import { postgresStore } from 'posthaste/postgres'
import { balanced, DESTINATION, migrate, OUTBOX_SETTINGS, openOutbox } from './outbox.ts'
import { EVENT_TYPE } from './payload.ts'
import type { OpenOptions, Subject } from './subject.ts'
import { analyse, insertOrder } from './transaction.ts'

/** That the store has for itself: reads, two settles at once, leases. */
const STORE_CONNECTIONS = 4
const TABLES = ['outbox.deliveries', 'outbox.events', 'outbox.finished']

/** A UUID of version 7 from yesterday, another one for each row. */
const idOf = (kind: string): string =>
  `(lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - 86400000), 12, '0') || '7${kind}8000' || lpad(to_hex($2::bigint + n), 12, '0'))::uuid`

const HISTORY = [
  `INSERT INTO outbox.events (id, seq, occurred_at, created_at, version, routes_version, size, type, content_type, payload)
   SELECT ${idOf('000')}, $2::bigint + n, now() - interval '1 day', now() - interval '1 day', 1,
          (SELECT coalesce(max(version), 1) FROM outbox.destinations), 16, '${EVENT_TYPE}', 'application/json', '{"history": true}'
   FROM generate_series(1, $1::integer) n`,
  `INSERT INTO outbox.finished (id, event_id, seq, created_at, finished_at, size, run, attempts, suspicions, lane, status, destination)
   SELECT ${idOf('001')}, ${idOf('000')}, $2::bigint + n, now() - interval '1 day', now() - interval '1 day', 16, 1, 0, 0,
          n % 64, 1, '${DESTINATION}'
   FROM generate_series(1, $1::integer) n`,
  `SELECT setval('outbox.events_seq', greatest((SELECT last_value FROM outbox.events_seq), $2::bigint + $1::integer))`,
]

export const posthaste: Subject = {
  name: 'posthaste',
  label: 'Posthaste',
  settings: { ...OUTBOX_SETTINGS, storeConnections: STORE_CONNECTIONS },
  unordered: null,
  tables: TABLES,
  unfinished: 'SELECT EXISTS (SELECT FROM outbox.deliveries) AS unfinished',
  async install(url) {
    const pool = new pg.Pool({ connectionString: url, max: 4 })
    await migrate(postgresStore({ pool }))
    await pool.end()
  },
  async open(options: OpenOptions) {
    const pool = new pg.Pool({ connectionString: options.url, max: options.connections })
    return await openOutbox(options, {
      store: postgresStore({ pool, poolSize: STORE_CONNECTIONS }),
      insertOrder,
      filled: (tx) => analyse(tx, TABLES),
      close: () => pool.end(),
    })
  },
  balanced: balanced('outbox.lanes'),
  history: { sql: HISTORY },
}
