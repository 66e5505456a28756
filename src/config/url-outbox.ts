/** An outbox from an address alone: for looking and operating, because destinations and listeners are code. */
import { resolve } from 'node:path'
import type { InvalidOptionError } from '../core/errors.ts'
import type { Outbox } from '../core/outbox-api.ts'
import type { Store } from '../core/spi/index.ts'
import { ConfigError } from './errors.ts'

export interface StorePlace {
  readonly schema?: string
  readonly prefix?: string
  readonly layout?: 'plain' | 'partitioned'
  readonly period?: 'day' | 'month'
}

const ADDRESS = 'the address of the database'

/** Path of the file, where the address is one of SQLite. */
export const sqliteFile = (url: string): string | null => {
  const path = url.replace(/^(?:sqlite|file):(?:\/\/)?/i, '')
  return path === url ? null : path
}

/** The same address from any folder: the path of a SQLite file begins in this one. Who made the address knows its scheme. */
export const settledAddress = (url: string, folder: string): string => {
  const path = sqliteFile(url)
  if (path === null || path === '' || path === ':memory:') return url
  return `${url.slice(0, url.indexOf(':'))}:${resolve(folder, path)}`
}

/** Their tables lie in the one database that the address names. */
const SCHEMES_WITHOUT_SCHEMA = ['mysql', 'mariadb', 'sqlite', 'file']

const said = (place: StorePlace): StorePlace =>
  Object.fromEntries(Object.entries(place).filter(([, value]) => value !== undefined))

/** `onStatement` hears every text that is sent; `what` is the address in errors, because it may have a password in it. */
export const storeAt = async (
  url: string,
  place: StorePlace,
  onStatement?: (sql: string) => void,
  what = ADDRESS,
): Promise<Store> => {
  const heard = onStatement === undefined ? {} : { onStatement }
  const scheme = /^([a-z0-9]+):/i.exec(url)?.[1]?.toLowerCase()
  const { schema, ...others } = said(place)
  if (schema !== undefined && scheme !== undefined && SCHEMES_WITHOUT_SCHEMA.includes(scheme))
    throw new ConfigError(`schema is for PostgreSQL alone, which ${what} does not name; use prefix`, {
      key: 'schema',
    })
  switch (scheme) {
    case 'postgres':
    case 'postgresql': {
      const { postgresStore } = await import('../stores/postgres/index.ts')
      return postgresStore({ connectionString: url, ...said(place), ...heard }) as Store
    }
    case 'mysql':
    case 'mariadb': {
      const { mysqlStore } = await import('../stores/mysql/index.ts')
      return mysqlStore({ connectionString: url, ...others, ...heard }) as Store
    }
    case 'sqlite':
    case 'file': {
      const { sqliteStore } = await import('../stores/sqlite/index.ts')
      const { layout, period, ...names } = others
      return sqliteStore({
        file: sqliteFile(url) ?? url,
        ...names,
        ...heard,
      }) as Store
    }
    default:
      throw new ConfigError(`${what} must begin with postgres://, mysql://, mariadb:// or sqlite:`, {
        key: 'url',
      })
  }
}

/** What a store says about its option, in the words of whoever said the address. */
const blame = (error: unknown, what: string): unknown => {
  const { option } = (error as Partial<InvalidOptionError>).detail ?? {}
  if (option !== 'connectionString' && option !== 'file') return error
  // Not as its cause too, which would say it all once more.
  return new ConfigError((error as Error).message.replace(String(option), what), { key: 'url' })
}

export const outboxAt = async (url: string, place: StorePlace, what = ADDRESS): Promise<Outbox<unknown>> => {
  const store = await storeAt(url, place, undefined, what).catch((error: unknown) => {
    throw blame(error, what)
  })
  // Most who look at a configuration have an outbox of their own, and should not load a second core.
  const { createOutbox } = await import('../core/outbox.ts')
  return createOutbox({ store }) as unknown as Outbox<unknown>
}
