/** Where the servers for the tests are. A missing one is an error: a test that does not run looks like one that passes. */
export type ServerName = 'mysql' | 'mariadb' | 'postgres' | 'postgres-new' | 'pgbouncer'

export const serverUrl = (name: ServerName): string => {
  const variable = `POSTHASTE_TEST_${name.toUpperCase().replaceAll('-', '_')}_URL`
  const url = process.env[variable]
  if (url !== undefined && url !== '') return url
  throw new Error(`${variable} is not set: start the servers and put the address of one into it`)
}

/** The oldest PostgreSQL that is tested. */
export const postgresUrl = (): string => serverUrl('postgres')

/** The newest one. */
export const newPostgresUrl = (): string => serverUrl('postgres-new')

/** PgBouncer in transaction mode. */
export const pgbouncerUrl = (): string => serverUrl('pgbouncer')
