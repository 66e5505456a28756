import type { Property } from '../property.ts'
import { coreProperties } from './core.ts'
import { type FuzzedStore, storeProperties } from './stores.ts'

const SERVERS: Readonly<Record<Exclude<FuzzedStore, 'sqlite'>, string>> = {
  postgres: 'POSTHASTE_TEST_POSTGRES_URL',
  mysql: 'POSTHASTE_TEST_MYSQL_URL',
  mariadb: 'POSTHASTE_TEST_MARIADB_URL',
}

/** What needs no server. */
export const embeddedProperties: readonly Property[] = [...coreProperties, ...storeProperties('sqlite')]

/** What goes to the servers that the environment names. */
export const serverProperties = (env: NodeJS.ProcessEnv): readonly Property[] =>
  Object.entries(SERVERS).flatMap(([kind, variable]) => {
    const url = env[variable]
    return url === undefined || url === '' ? [] : storeProperties(kind as FuzzedStore, url)
  })

export const propertiesOf = (env: NodeJS.ProcessEnv): readonly Property[] => [
  ...embeddedProperties,
  ...serverProperties(env),
]
