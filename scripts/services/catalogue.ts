/** All services. A new one is a file and a line here (and an entry in compose.yaml). */
import { mariadb } from './mariadb.ts'
import { mysql } from './mysql.ts'
import { pgbouncer } from './pgbouncer.ts'
import { postgres, postgresNew } from './postgres.ts'
import { type Service, ServicesError } from './service.ts'

export const SERVICES: readonly Service[] = [postgres, postgresNew, mariadb, mysql, pgbouncer]

export const serviceOf = (name: string): Service => {
  const found = SERVICES.find((service) => service.name === name)
  if (found) return found
  throw new ServicesError(
    `There is no service "${name}"; there are ${SERVICES.map((each) => each.name).join(', ')}.`,
  )
}

/** The named services (all, if none is named) and those they need, each once, needed ones first. */
export const withNeeds = (names: readonly string[]): Service[] => {
  const wanted = names.length > 0 ? names.map(serviceOf) : SERVICES
  const found = wanted.flatMap((service) => [...withNeedsOf(service), service])
  return [...new Set(found)]
}

const withNeedsOf = ({ needs }: Service): Service[] => (needs.length > 0 ? withNeeds(needs) : [])
