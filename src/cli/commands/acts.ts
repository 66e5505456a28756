import { ERROR_CODES, OutboxError } from '../../core/errors.ts'
import { hintFor } from '../../core/model/unknown-names.ts'
import { perSecondOf, requireSome, runBulk } from '../bulk.ts'
import type { Command } from '../command.ts'
import { ACT_FLAGS, eachPage, FILTER_FLAGS, filterOf, findEvent } from '../filters.ts'
import type { Session } from '../session.ts'
import { clean, deliveriesText } from '../text.ts'

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

/** The registry knows the destinations of all processes, not only those of this configuration. */
const setPaused = async (session: Session, paused: boolean) => {
  const name = session.operands[0] ?? ''
  const known = new Set<string>()
  const changed: string[] = []
  for (const { name: outboxName, outbox, host } of await session.outboxes()) {
    const { destinations } = await host.registered()
    for (const destination of destinations) known.add(destination.name)
    if (!destinations.some((destination) => destination.name === name)) continue
    if (paused) await outbox.operator.pause(name, session.act())
    else await outbox.operator.resume(name, session.act())
    changed.push(outboxName)
    session.say(
      `${clean(name)} of ${clean(outboxName)} is ${paused ? session.paint('yellow', 'paused') : session.paint('green', 'on')}`,
    )
  }
  if (changed.length === 0) {
    const hint = known.size === 0 ? '; no process has declared any yet' : hintFor(name, known)
    throw new OutboxError(ERROR_CODES.notFound, `there is no destination "${name}"${hint}`)
  }
  return { json: { destination: name, paused, outboxes: changed } }
}

export const pause: Command = {
  name: 'pause',
  group: 'Repair',
  summary: 'no process sends to a destination until resume',
  operands: 'DESTINATION',
  counts: [1, 1],
  about: [
    'Events for it are stored and wait. Every process follows within a renewal of its lease, which is seconds.',
  ],
  flags: ACT_FLAGS,
  examples: [['posthaste pause mailer --reason "template is broken"', 'while somebody mends it']],
  run: (session) => setPaused(session, true),
}

export const resume: Command = {
  name: 'resume',
  group: 'Repair',
  summary: 'sends to a paused destination again',
  operands: 'DESTINATION',
  counts: [1, 1],
  about: ['What waited is delivered now, in its order.'],
  flags: ACT_FLAGS,
  examples: [['posthaste resume mailer', 'once it is mended']],
  run: (session) => setPaused(session, false),
}
