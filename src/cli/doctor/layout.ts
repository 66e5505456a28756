/** Whether the tables have the partitions that the configuration speaks of. */
import type { LoadedOutbox } from '../../config/load-config.ts'
import { compareLayout, layoutRemedy } from '../layout.ts'
import { type Finding, ok, problem, skipped } from './finding.ts'

const listText = (tables: readonly string[]): string =>
  `${tables.join(' and ')} ${tables.length === 1 ? 'has' : 'have'}`

export const checkLayout = async (loaded: LoadedOutbox): Promise<Finding> => {
  const { host, outbox } = loaded
  if (host.store.name === 'sqlite') return ok('layout', 'SQLite has no partitions')
  if ((await outbox.schema.status()).current === 0) return ok('layout', 'is decided when the tables are made')
  const { given, unlike, alike } = await compareLayout(host)
  if (unlike.length + alike.length === 0)
    return skipped('layout', 'the tables are gone, or hidden from this user')
  if (unlike.length === 0) return ok('layout', `${given}, as the tables were made`)
  if (given === 'partitioned')
    return problem(
      'layout',
      `the configuration says "partitioned", but ${listText(unlike)} no partitions, so nothing is ever cleaned up`,
      layoutRemedy('plain'),
    )
  if (!loaded.hasCode)
    return ok('layout', `${listText(unlike)} partitions; whether workers know it, their configuration says`)
  return problem(
    'layout',
    `the configuration says "plain", but ${listText(unlike)} partitions, and nobody makes new ones or drops old ones`,
    layoutRemedy('partitioned'),
  )
}
