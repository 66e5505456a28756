import { setTimeout as pause } from 'node:timers/promises'
import { createOutbox } from '../../src/index.ts'
import { type SqliteHandle, sqliteStore } from '../../src/stores/sqlite/index.ts'
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
import { PREFIX } from './stores.ts'

type Value = string | number

const table = (name: string): string => `${PREFIX}${name}`
const idText = (column: string): string => `lower(hex(${column}))`

export const sqliteHand = (file: string): Hand => {
  // The file is opened through the store, which finds a driver that this Node has.
  const outbox = createOutbox({ store: sqliteStore({ file, prefix: PREFIX }), migrate: false })
  const within = <T>(fn: (tx: SqliteHandle) => T | Promise<T>): Promise<T> => outbox.transaction(fn)
  const rows = (sql: string, values: readonly Value[] = []): Promise<readonly Row[]> =>
    within((tx) => tx.prepare(sql.replaceAll('{prefix}', PREFIX)).all(...values))

  return {
    async setUp() {
      await within((tx) => {
        const exec = (sql: string): void => tx.exec(sql.replaceAll('{prefix}', PREFIX))
        exec(`CREATE TABLE {prefix}truth (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
          event_key TEXT, position INTEGER NOT NULL, once TEXT UNIQUE, body TEXT NOT NULL)`)
        exec(`CREATE TABLE {prefix}transitions (number INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL,
          op TEXT NOT NULL, delivery TEXT NOT NULL, event TEXT NOT NULL, destination TEXT NOT NULL, run INTEGER NOT NULL,
          was INTEGER, became INTEGER, attempts_were INTEGER, attempts INTEGER)`)
        exec('CREATE TABLE {prefix}pings (filler TEXT NOT NULL)')
      })
    },
    async watchTransitions() {
      await within((tx) => {
        const exec = (sql: string): void => tx.exec(sql.replaceAll('{prefix}', PREFIX))
        for (const { of, op, values } of triggers(idText)) {
          const when = op === 'update' ? 'WHEN OLD.status <> NEW.status OR OLD.attempts <> NEW.attempts' : ''
          exec(`CREATE TRIGGER {prefix}${of}_${op} AFTER ${op} ON {prefix}${of} FOR EACH ROW ${when} BEGIN
            INSERT INTO {prefix}transitions (${TRANSITION_COLUMNS}) VALUES (${values}); END`)
        }
      })
    },
    ping: () => within((tx) => void tx.prepare(`INSERT INTO ${PREFIX}pings VALUES (?)`).run(filler())),
    killConnections: async () => 0,
    holdTransaction: (ms) =>
      within(async (tx) => {
        tx.prepare(`INSERT INTO ${PREFIX}pings VALUES (?)`).run('')
        await pause(ms)
      }),
    async sizes() {
      const own = OWN_TABLES.map((name) => `'${PREFIX}${name}'`).join(', ')
      const found = await rows(
        `SELECT m.name, CASE m.type WHEN 'table' THEN 'r' ELSE 'i' END AS kind, (SELECT sum(s.pgsize)
           FROM dbstat('main', 1) AS s WHERE s.name = m.name) AS bytes FROM sqlite_master AS m
         WHERE m.type IN ('table', 'index') AND m.tbl_name LIKE '{prefix}%' AND m.tbl_name NOT IN (${own}) ORDER BY 1`,
      )
      const names = found.filter(({ kind }) => kind === 'r').map(({ name }) => String(name))
      const counted = await rows(
        names.map((name) => `SELECT '${name}' AS name, count(*) AS rows FROM "${name}"`).join(' UNION ALL '),
      )
      return sizesOf(found, counted)
    },
    ...readings({ rows, table, idText }),
    [Symbol.asyncDispose]: () => outbox.close(),
  }
}
