import { BULK_FLAGS, type Choice, chooseByIds, requireSome, runBulk } from '../bulk.ts'
import type { Command } from '../command.ts'
import { collect, FILTER_FLAGS, filterOf, requireDestination } from '../filters.ts'
import type { Session } from '../session.ts'

const LOOK_AT = 10_000

/** Done deliveries: by ids, or by a filter. */
const choose = async (session: Session): Promise<Choice> => {
  const limit = session.whole('limit', 1_000, [1, LOOK_AT])
  const filter = filterOf(session)
  if (session.operands.length > 0) {
    const { destination: _, ...others } = filter
    if (Object.keys(others).length > 0 || session.text('limit') !== undefined)
      session.refuse('name ids, or a filter; beside ids there can be --destination only')
    await requireDestination(session)
    return await chooseByIds(session, 'done', filter.destination)
  }
  if (filter.destination === undefined)
    session.refuse('name ids, or --destination, with more filters if you like')
  const loaded = await session.outbox()
  const { found } = await collect(loaded, { ...filter, status: ['done'] }, 1)
  if (found.length === 0) await requireDestination(session)
  requireSome(found, 'done delivery that matches')
  return { loaded, target: { ...filter, limit } }
}

export const replay: Command = {
  name: 'replay',
  group: 'Repair',
  summary: 'sends deliveries again that are done',
  operands: '[ID…]',
  counts: [0, 1_000],
  about: [
    'Each begins a new run; the done one stays. Receivers tell the new one by its deduplication id, which carries the run. ' +
      'What is unfinished or dead is left alone.',
    'A filter needs --destination, so that nobody sends everything everywhere by accident.',
  ],
  flags: [
    ...FILTER_FLAGS,
    { name: 'limit', value: 'N', about: `at most N, the oldest first, 1 to ${LOOK_AT} (default 1000)` },
    ...BULK_FLAGS,
  ],
  examples: [
    ['posthaste replay 019a3c1e-7b1f-7c33-9d52-0a4f6c1b2d3e', 'one event, everywhere it went'],
    ['posthaste replay --destination search --type product.changed --per-second 100', 'fill an index again'],
  ],
  run: (session) => runBulk(session, 'replay', () => choose(session)),
}
