/** Before the tests that need servers: starts those that the environment does not name. A failure fails the run. */
import { serviceOf } from '../../scripts/services/catalogue.ts'
import { serviceUrls, stopServices } from '../../scripts/services/index.ts'

const SERVERS = ['postgres', 'postgres-new', 'pgbouncer', 'mariadb', 'mysql'] as const

export const setup = async (): Promise<void> => {
  const urls = await serviceUrls(SERVERS)
  // The processes in which the tests run inherit it.
  for (const name of SERVERS) process.env[serviceOf(name).variable] = urls[name]
}

/** At home they stay for the next run. */
export const teardown = async (): Promise<void> => {
  if (process.env.CI === 'true') await stopServices()
}
