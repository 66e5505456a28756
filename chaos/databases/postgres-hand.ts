import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import {
  filler,
  type Hand,
  OWN_TABLES,
  type Row,
  readings,
  sizesOf,
  TRANSITION_COLUMNS,
  triggers,
} from './hand.ts'
import { SCHEMA } from './stores.ts'

const NAME = 'chaos-hand'

const table = (name: string): string => `${SCHEMA}.${name}`
const idText = (column: string): string => `${column}::text`

export const postgresHand = (url: string): Hand => {
  const pool = new pg.Pool({ connectionString: url, max: 3, application_name: NAME })
  // A server that is killed cuts these too.
  pool.on('error', () => undefined)
  const rows = async (sql: string, values: readonly unknown[] = []): Promise<readonly Row[]> =>
    (await pool.query(sql.replaceAll('{schema}', SCHEMA), [...values])).rows as Row[]

  return {
    async setUp() {
      await rows(`CREATE TABLE {schema}.truth (number bigserial PRIMARY KEY, id text NOT NULL UNIQUE,
        event_key text, position integer NOT NULL, once text UNIQUE, body text NOT NULL)`)
      await rows(`CREATE TABLE {schema}.transitions (number bigserial PRIMARY KEY, source text NOT NULL, op text NOT NULL,
        delivery text NOT NULL, event text NOT NULL, destination text NOT NULL, run integer NOT NULL,
        was integer, became integer, attempts_were integer, attempts integer)`)
      await rows('CREATE TABLE {schema}.pings (filler text NOT NULL)')
      // The disk of a run is small; a log that is kept short fits on it.
      await rows("ALTER SYSTEM SET max_wal_size = '160MB'")
      await rows('SELECT pg_reload_conf()')
    },
    async watchTransitions() {
      for (const { of, op, values } of triggers(idText)) {
        const name = `chaos_${of}_${op}`
        await rows(`CREATE FUNCTION {schema}.${name}() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN
          INSERT INTO {schema}.transitions (${TRANSITION_COLUMNS}) VALUES (${values}); RETURN NULL; END $body$`)
        const when = op === 'update' ? 'WHEN (OLD.status <> NEW.status OR OLD.attempts <> NEW.attempts)' : ''
        await rows(`CREATE TRIGGER ${name} AFTER ${op} ON {schema}.${of} FOR EACH ROW ${when}
          EXECUTE FUNCTION {schema}.${name}()`)
      }
    },
    async ping() {
      await rows('INSERT INTO {schema}.pings VALUES ($1)', [filler()])
    },
    async killConnections(share) {
      const killed = await rows(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()
         AND datname = current_database() AND application_name <> $1 AND backend_type = 'client backend' AND random() < $2`,
        [NAME, share],
      )
      return killed.length
    },
    async holdTransaction(ms) {
      const client = await pool.connect()
      // It may be cut meanwhile by another fault; then this one was shorter.
      client.on('error', () => undefined)
      try {
        await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
        await client.query(`INSERT INTO ${SCHEMA}.pings VALUES ('')`)
        await pause(ms)
        await client.query('COMMIT')
        client.release()
      } catch (error) {
        client.release(true)
        throw error
      }
    },
    async sizes() {
      const found = await rows(
        `SELECT c.relname AS name, c.relkind AS kind, pg_table_size(c.oid) AS bytes
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_index i ON i.indexrelid = c.oid
         WHERE n.nspname = $1 AND c.relkind IN ('r', 'i')
         AND (SELECT o.relname FROM pg_class o WHERE o.oid = coalesce(i.indrelid, c.oid)) <> ALL ($2) ORDER BY 1`,
        [SCHEMA, OWN_TABLES],
      )
      const names = found.filter(({ kind }) => kind === 'r').map(({ name }) => String(name))
      const counted = await rows(
        names
          .map((name) => `SELECT '${name}' AS name, count(*) AS rows FROM {schema}."${name}"`)
          .join(' UNION ALL '),
      )
      return sizesOf(found, counted)
    },
    ...readings({ rows, table, idText }),
    [Symbol.asyncDispose]: () => pool.end(),
  }
}
