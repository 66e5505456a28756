import { perSecondOf, requireSome, runBulk } from '../bulk.ts'
import type { Command } from '../command.ts'
import { ACT_FLAGS, eachPage, FILTER_FLAGS, filterOf, findEvent } from '../filters.ts'
import type { Session } from '../session.ts'
import { deliveriesText } from '../text.ts'

const LOOK_AT = 10_000

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
    { name: 'dry-run', about: 'say how many it would be, and touch nothing' },
    { name: 'per-second', value: 'N', about: 'at most N a second' },
    ...ACT_FLAGS,
  ],
  examples: [
    ['posthaste replay 019a3c1e-7b1f-7c33-9d52-0a4f6c1b2d3e', 'one event, everywhere it went'],
    ['posthaste replay --destination search --type product.changed --per-second 100', 'fill an index again'],
  ],
  async run(session) {
    const perSecond = perSecondOf(session)
    const limit = session.whole('limit', 1_000, [1, LOOK_AT])
    const filter = filterOf(session)
    const ids: string[] = []
    let loaded: Awaited<ReturnType<Session['outbox']>>
    if (session.operands.length > 0) {
      const found = []
      for (const id of session.operands) found.push(await findEvent(session, id))
      loaded = found[0]?.[0] as typeof loaded
      if (found.some(([owner]) => owner.name !== loaded.name))
        session.refuse('these are in different outboxes; one at a time')
      for (const [, detail, delivery] of found) {
        const wanted = delivery === null ? detail.deliveries : [delivery]
        for (const { status, destination, id } of wanted) {
          const matches = filter.destination === undefined || filter.destination === destination
          if (status === 'done' && matches) ids.push(id)
        }
      }
    } else {
      if (filter.destination === undefined) session.refuse('name ids, or --destination with more filters')
      loaded = await session.outbox()
      await eachPage(loaded, { ...filter, status: ['done'], order: 'oldest' }, limit, (page) => {
        ids.push(...page.map(({ id }) => id))
      })
    }
    requireSome(ids, 'done delivery that matches')
    if (session.isOn('dry-run')) {
      session.say(`would replay ${deliveriesText(ids.length)}`)
      return { json: { dryRun: true, matched: ids.length, replayed: 0 } }
    }
    const act = session.act()
    const step = (deliveryIds: readonly string[]): Promise<number> =>
      loaded.outbox.operator.replay({ deliveryIds }, act)
    const replayed = await runBulk(session, { ids, done: 'replayed', perSecond, step })
    session.say(session.paint('green', `${deliveriesText(replayed)} replayed`))
    return { json: { dryRun: false, matched: ids.length, replayed } }
  },
}
