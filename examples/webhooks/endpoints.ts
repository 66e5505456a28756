import { randomBytes } from 'node:crypto'
import pg from 'pg'

export const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL ?? 'postgres://postgres:postgres@localhost:5432/postgres',
})

export interface Endpoint {
  readonly url: string
  /** The newest first. */
  readonly secrets: readonly string[]
}

const newSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`

export const createEndpoints = async (): Promise<void> => {
  await pool.query(`CREATE TABLE IF NOT EXISTS endpoints (
    tenant text PRIMARY KEY, url text NOT NULL, secrets text[] NOT NULL, enabled boolean NOT NULL DEFAULT true)`)
}

/** Gives the secret, which the customer is shown once. */
export const register = async (tenant: string, url: string): Promise<string> => {
  const secret = newSecret()
  await pool.query(
    `INSERT INTO endpoints (tenant, url, secrets) VALUES ($1, $2, $3)
     ON CONFLICT (tenant) DO UPDATE SET url = excluded.url, secrets = excluded.secrets, enabled = true`,
    [tenant, url, [secret]],
  )
  return secret
}

/** From now on both count: the customer changes to the new one whenever it suits. */
export const addSecret = async (tenant: string): Promise<string> => {
  const secret = newSecret()
  await pool.query('UPDATE endpoints SET secrets = ARRAY[$2] || secrets WHERE tenant = $1', [tenant, secret])
  return secret
}

/** The customer has changed, so the old ones go. */
export const dropOldSecrets = async (tenant: string): Promise<void> => {
  await pool.query('UPDATE endpoints SET secrets = secrets[1:1] WHERE tenant = $1', [tenant])
}

export const disable = async (url: string): Promise<void> => {
  await pool.query('UPDATE endpoints SET enabled = false WHERE url = $1', [url])
}

/** Null: there is none, or it is not used any more. */
export const endpointOf = async (tenant: string): Promise<Endpoint | null> => {
  const { rows } = await pool.query<Endpoint>(
    'SELECT url, secrets FROM endpoints WHERE tenant = $1 AND enabled',
    [tenant],
  )
  return rows[0] ?? null
}
