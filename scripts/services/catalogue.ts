/**
 * All services. A new one is a file, a line here, and an entry in compose.yaml. `postgres@crash` is a second server
 * of the same kind, with its own data and port, for a test that kills it while other tests use `postgres`.
 */
import { kafka } from './kafka.ts'
import { mariadb } from './mariadb.ts'
import { mosquitto } from './mosquitto.ts'
import { mysql } from './mysql.ts'
import { nats } from './nats.ts'
import { pgbouncer } from './pgbouncer.ts'
import { postgres, postgresNew } from './postgres.ts'
import { rabbitmq } from './rabbitmq.ts'
import { redis } from './redis.ts'
import { type Service, ServicesError } from './service.ts'

export const SERVICES: readonly Service[] = [
  postgres,
  postgresNew,
  mariadb,
  mysql,
  pgbouncer,
  redis,
  nats,
  mosquitto,
  rabbitmq,
  kafka,
]

const NAME = /^([a-z-]+)(?:@([a-z][a-z0-9]{0,15}))?$/

export const splitName = (name: string): { readonly kind: string; readonly label: string | null } => {
  const [, kind, label = null] = NAME.exec(name) ?? []
  if (kind) return { kind, label }
  throw new ServicesError(`"${name}" is no name: expected a service, or a service, "@" and a short label.`)
}

export const withLabel = (kind: string, label: string | null): string =>
  label === null ? kind : `${kind}@${label}`

export const serviceOf = (name: string): Service => {
  const { kind, label } = splitName(name)
  const found = SERVICES.find((service) => service.name === kind)
  if (!found)
    throw new ServicesError(
      `There is no service "${kind}"; there are ${SERVICES.map((each) => each.name).join(', ')}.`,
    )
  if (label === null) return found
  return {
    ...found,
    name,
    variable: found.variable.replace(/_URL$/, `_${label.toUpperCase()}_URL`),
    needs: found.needs.map((need) => withLabel(need, label)),
  }
}

/** The named services and those they need, each once, needed ones first. */
export const withNeeds = (names: readonly string[]): Service[] => {
  const found = names.flatMap((name) => {
    const service = serviceOf(name)
    return [...withNeeds(service.needs), service]
  })
  return [...new Map(found.map((service) => [service.name, service])).values()]
}
