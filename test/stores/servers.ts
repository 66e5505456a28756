/** Where the servers for the tests are. A missing one is an error: a test that does not run looks like one that passes. */

const urlOf = (name: string): string => {
  const url = process.env[name]
  if (url !== undefined && url !== '') return url
  throw new Error(`${name} is not set: start the servers and put the address of one into it`)
}

/** The oldest PostgreSQL that is tested. */
export const postgresUrl = (): string => urlOf('POSTHASTE_TEST_POSTGRES_URL')

/** The newest one. */
export const newPostgresUrl = (): string => urlOf('POSTHASTE_TEST_POSTGRES_NEW_URL')

/** PgBouncer in transaction mode. */
export const pgbouncerUrl = (): string => urlOf('POSTHASTE_TEST_PGBOUNCER_URL')
