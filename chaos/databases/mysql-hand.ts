import { setTimeout as pause } from 'node:timers/promises'
import mysql from 'mysql2/promise'
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

const table = (name: string): string => `${PREFIX}${name}`
const idText = (column: string): string => `LOWER(HEX(${column}))`

export const mysqlHand = (url: string): Hand => {
  const pool = mysql.createPool({ uri: url, connectionLimit: 3 })
  const rows = async (sql: string, values: readonly unknown[] = []): Promise<readonly Row[]> =>
    (await pool.query(sql.replaceAll('{prefix}', PREFIX), [...values]))[0] as unknown as Row[]

  return {
    async setUp() {
      await rows(`CREATE TABLE {prefix}truth (number BIGINT AUTO_INCREMENT PRIMARY KEY, id VARCHAR(36) NOT NULL UNIQUE,
        event_key VARCHAR(255), position INT NOT NULL, once VARCHAR(255) UNIQUE, body TEXT NOT NULL)`)
      await rows(`CREATE TABLE {prefix}transitions (number BIGINT AUTO_INCREMENT PRIMARY KEY, source VARCHAR(16) NOT NULL,
        op VARCHAR(16) NOT NULL, delivery VARCHAR(36) NOT NULL, event VARCHAR(36) NOT NULL,
        destination VARCHAR(64) NOT NULL, run INT NOT NULL, was INT, became INT, attempts_were INT, attempts INT)`)
      await rows('CREATE TABLE {prefix}pings (filler TEXT NOT NULL)')
    },
    async watchTransitions() {
      for (const { of, op, values } of triggers(idText)) {
        // Without a condition: an insert of no rows is how a trigger here does nothing.
        const only = op === 'update' ? 'WHERE OLD.status <> NEW.status OR OLD.attempts <> NEW.attempts' : ''
        await rows(`CREATE TRIGGER {prefix}${of}_${op} AFTER ${op.toUpperCase()} ON {prefix}${of} FOR EACH ROW
          INSERT INTO {prefix}transitions (${TRANSITION_COLUMNS}) SELECT ${values} FROM DUAL ${only}`)
      }
    },
    async ping() {
      await rows('INSERT INTO {prefix}pings VALUES (?)', [filler()])
    },
    async killConnections(share) {
      const found = await rows(
        `SELECT id FROM information_schema.processlist
         WHERE id <> CONNECTION_ID() AND user = SUBSTRING_INDEX(CURRENT_USER(), '@', 1) AND RAND() < ?`,
        [share],
      )
      let killed = 0
      for (const row of found) {
        // It may have ended by itself meanwhile.
        const ended = await rows(`KILL ${Number(row.id ?? row.ID)}`).then(
          () => 1,
          () => 0,
        )
        killed += ended
      }
      return killed
    },
    async holdTransaction(ms) {
      const connection = await pool.getConnection()
      try {
        await connection.query('START TRANSACTION WITH CONSISTENT SNAPSHOT')
        await connection.query(`INSERT INTO ${PREFIX}pings VALUES ('')`)
        await pause(ms)
        await connection.query('COMMIT')
        connection.release()
      } catch (error) {
        connection.destroy()
        throw error
      }
    },
    async sizes() {
      const own = OWN_TABLES.map((name) => `${PREFIX}${name}`)
      const tables = await rows(
        `SELECT table_name AS name, data_length AS bytes, index_length AS indexes FROM information_schema.tables
         WHERE table_schema = DATABASE() AND table_name LIKE '{prefix}%' AND table_name NOT IN (?) ORDER BY 1`,
        [own],
      )
      const counted = await rows(
        tables
          .map(({ name }) => `SELECT '${name}' AS name, COUNT(*) AS \`rows\` FROM ${name}`)
          .join(' UNION ALL '),
      )
      // The server tells only how large all indexes of a table are together.
      const indexes = tables.map(({ name, indexes }) => ({
        name: `${name}_indexes`,
        kind: 'i',
        bytes: indexes,
      }))
      return sizesOf([...tables.map((table) => ({ ...table, kind: 'r' })), ...indexes], counted)
    },
    ...readings({ rows, table, idText }),
    [Symbol.asyncDispose]: () => pool.end(),
  }
}
