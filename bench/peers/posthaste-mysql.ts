/** Posthaste on MySQL and MariaDB, which no peer knows: measured beside an application without an outbox. */
import mysql, { type PoolConnection } from 'mysql2/promise'
import { mysqlStore } from 'posthaste/mysql'
import { balanced, migrate, OUTBOX_SETTINGS, openOutbox } from './outbox.ts'
import type { OpenOptions, Subject } from './subject.ts'

export const insertMysqlOrder = async (connection: PoolConnection, n: number): Promise<void> => {
  const values = [`customer-${n % 5_000}`, 1_000 + (n % 900), 'placed']
  await connection.query('INSERT INTO orders (customer, total, status) VALUES (?, ?, ?)', values)
}

export const posthasteMysql: Subject = {
  name: 'posthaste',
  label: 'Posthaste',
  settings: OUTBOX_SETTINGS,
  unordered: null,
  tables: ['outbox_deliveries', 'outbox_events', 'outbox_finished'],
  unfinished: 'SELECT EXISTS (SELECT 1 FROM outbox_deliveries) AS unfinished',
  async install(url) {
    const pool = mysql.createPool({ uri: url, connectionLimit: 4 })
    await migrate(mysqlStore({ pool }))
    await pool.end()
  },
  async open(options: OpenOptions) {
    const pool = mysql.createPool({ uri: options.url, connectionLimit: options.connections })
    return await openOutbox(options, {
      store: mysqlStore({ pool }),
      insertOrder: insertMysqlOrder,
      filled: async () => undefined,
      close: () => pool.end(),
    })
  },
  balanced: balanced('outbox_lanes'),
  history: { none: 'growth is measured on PostgreSQL alone' },
}
