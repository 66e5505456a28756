/** Whether the tables have the partitions that the configuration speaks of. */
import type { LoadedOutbox } from '../../config/load-config.ts'
import { compareLayout, layoutTrouble, listText } from '../layout.ts'
import { type Finding, ok, problem, skipped } from './finding.ts'

export const checkLayout = async (loaded: LoadedOutbox): Promise<Finding> => {
  const { host, outbox } = loaded
  if (host.store.name === 'sqlite') return ok('layout', 'SQLite has no partitions')
  if ((await outbox.schema.status()).current === 0) return ok('layout', 'is decided when the tables are made')
  const comparison = await compareLayout(host)
  const { given, unlike, alike } = comparison
  if (unlike.length + alike.length === 0)
    return skipped('layout', 'the tables are gone, or hidden from this user')
  const trouble = layoutTrouble(comparison, loaded.hasCode)
  if (trouble !== null) return problem('layout', trouble.text, trouble.remedy)
  if (unlike.length === 0) return ok('layout', `${given}, as the tables were made`)
  return ok('layout', `${listText(unlike)} partitions; whether workers know it, their configuration says`)
}
