import type { ListQuery } from '../../core/inspection.ts'
import type { DeliveryStatus } from '../../core/model/delivery.ts'
import { DELIVERY_STATUS } from '../../core/model/delivery.ts'
import type { DeliveryView } from '../../core/spi/index.ts'
import type { Command } from '../command.ts'
import { durationFlag, FILTER_FLAGS, filterOf, requireDestination } from '../filters.ts'
import type { Session } from '../session.ts'
import { deliveryColumns, plainDelivery, showNamed, timeText } from '../show.ts'
import { clean, jsonText } from '../text.ts'
import { wait } from '../wait.ts'

const STATES = Object.keys(DELIVERY_STATUS) as DeliveryStatus[]

const LIST_FLAGS = [
  { name: 'status', value: 'A,B', about: `only these states: ${STATES.join(', ')}` },
  ...FILTER_FLAGS,
  { name: 'older-than', value: 'DURATION', about: 'stored longer ago than this, such as 10m' },
  { name: 'newer-than', value: 'DURATION', about: 'stored within this time' },
]

const queryOf = (session: Session): ListQuery => {
  const status = session
    .text('status')
    ?.split(',')
    .map((one) => one.trim())
  for (const one of status ?? []) {
    if (!STATES.includes(one as DeliveryStatus))
      session.refuse(`--status does not know "${one}"; there are: ${STATES.join(', ')}`)
  }
  const [olderThanMs, newerThanMs] = [
    durationFlag(session, 'older-than'),
    durationFlag(session, 'newer-than'),
  ]
  return {
    ...filterOf(session),
    ...(status === undefined ? {} : { status: status as DeliveryStatus[] }),
    ...(olderThanMs === undefined ? {} : { olderThanMs }),
    ...(newerThanMs === undefined ? {} : { newerThanMs }),
  }
}

export const eventsList: Command = {
  name: 'events list',
  aliases: ['events'],
  group: 'Look',
  summary: 'deliveries, newest first, by state, destination, type, key …',
  operands: '',
  counts: [0, 0],
  about: ['One line per delivery: an event and one of its destinations. Payloads are never shown here.'],
  flags: [
    ...LIST_FLAGS,
    { name: 'oldest', about: 'oldest first' },
    { name: 'limit', value: 'N', about: 'most lines, 1 to 10,000 (default 50)' },
    {
      name: 'after',
      value: 'CURSOR',
      about: 'go on where a page ended; --json has it as "next", of several outboxes by their names',
    },
  ],
  examples: [
    ['posthaste events list --status retry,held', 'what fails or waits behind a failure'],
    ['posthaste events list --type order.placed --newer-than 1h --json', 'for programs'],
  ],
  async run(session) {
    const query = queryOf(session)
    const limit = session.whole('limit', 50, [1, 10_000])
    const after = session.text('after')
    const all: Readonly<Record<string, unknown>>[] = []
    const now = Date.now()
    // A cursor belongs to one of them.
    const outboxes = after === undefined ? await session.outboxes() : [await session.outbox()]
    const nexts: Record<string, string | null> = {}
    for (const { name, outbox } of outboxes) {
      const page = await outbox.inspect.list({
        ...query,
        limit,
        order: session.isOn('oldest') ? 'oldest' : 'newest',
        ...(after === undefined ? {} : { after }),
      })
      nexts[name] = page.next
      if (page.deliveries.length === 0) await requireDestination(session)
      if (page.deliveries.length === 0) session.say(`${clean(name)}: nothing matches`)
      else session.table(page.deliveries, deliveryColumns(now))
      if (page.next !== null)
        session.note(session.paint('dim', `there are more: --outbox ${clean(name)} --after ${page.next}`))
      all.push(...page.deliveries.map((delivery) => ({ outbox: name, ...plainDelivery(delivery) })))
    }
    const [only = null, ...others] = Object.values(nexts)
    return { json: { deliveries: all, next: others.length === 0 ? only : nexts } }
  },
}

export const eventsShow: Command = {
  name: 'events show',
  group: 'Look',
  summary: 'one event with all its deliveries, runs and failed attempts',
  operands: 'ID',
  counts: [1, 1],
  about: [
    'ID is that of the event or of one of its deliveries. Payload and headers are shown only with --payload, because they may ' +
      'hold personal data.',
  ],
  flags: [{ name: 'payload', about: 'show payload and headers too' }],
  examples: [['posthaste events show 019a3c1e-7b1f-7c33-9d52-0a4f6c1b2d3e --payload', 'everything there is']],
  async run(session) {
    const { json } = await showNamed(session)
    return { json }
  },
}

const TAIL_PAGE = 200
/** Of what was there before; as tail does. */
const TAIL_BEGIN = 10

/** When it came to the state that is shown, where that is written down. */
const sinceMs = ({ status, createdAtMs, finishedAtMs, diedAtMs }: DeliveryView): number | null =>
  finishedAtMs ?? diedAtMs ?? (status === 'pending' || status === 'scheduled' ? createdAtMs : null)

/** Those of the newest page that were not there the last time, oldest first. */
const fresh = (page: readonly DeliveryView[], seen: Map<string, string>): readonly DeliveryView[] => {
  const changed = page.filter(({ id, status, attempts }) => seen.get(id) !== `${status}${attempts}`)
  seen.clear()
  for (const { id, status, attempts } of page) seen.set(id, `${status}${attempts}`)
  return [...changed].reverse()
}

/** The time of a day that is not today has its date. */
const whenText = (ms: number | null): string => {
  if (ms === null) return '--:--:--'
  const [text, today] = [timeText(ms), timeText(Date.now())]
  return text.slice(text.slice(0, 10) === today.slice(0, 10) ? 11 : 0, 19)
}

export const eventsTail: Command = {
  name: 'events tail',
  group: 'Look',
  summary: 'new deliveries and changes of their state, as they happen',
  operands: '',
  counts: [0, 0],
  about: [
    `Begins with the newest ${TAIL_BEGIN}, then looks every --interval at the newest ${TAIL_PAGE} deliveries and prints what is new or changed, until Ctrl-C. ` +
      'Times are UTC. With --json one object per line.',
  ],
  flags: [
    ...LIST_FLAGS,
    { name: 'interval', value: 'DURATION', about: 'how often to look (default 1s)' },
    { name: 'limit', value: 'N', about: 'end after N lines' },
  ],
  examples: [['posthaste events tail --destination mailer', 'while you try something']],
  async run(session) {
    const query = queryOf(session)
    const everyMs = Math.max(50, durationFlag(session, 'interval') ?? 1_000)
    const limit = session.whole('limit', Number.MAX_SAFE_INTEGER, [1, 1_000_000])
    const outboxes = await session.outboxes()
    // Who waits for what can never come would wait for ever.
    await requireDestination(session)
    const seen = outboxes.map(() => new Map<string, string>())
    const begun = new Set<object>()
    const { signal } = session
    let lines = 0
    while (!signal.aborted) {
      for (const [index, { name, outbox }] of outboxes.entries()) {
        const { deliveries } = await outbox.inspect.list({ ...query, limit: TAIL_PAGE })
        const known = seen[index] as Map<string, string>
        const isFirst = !begun.has(known)
        begun.add(known)
        for (const delivery of fresh(deliveries, known).slice(isFirst ? -TAIL_BEGIN : 0)) {
          if (session.isJson)
            session.streams.stdout.write(`${jsonText({ outbox: name, ...plainDelivery(delivery) })}\n`)
          const { eventId, type, destination, status, attempts, lastError } = delivery
          const state = status === 'retry' || status === 'dead' ? `${status} after ${attempts}` : status
          const error = lastError === null || status === 'done' ? '' : `  ${lastError}`
          const when = whenText(sinceMs(delivery) ?? (isFirst ? null : Date.now()))
          session.say(clean(`${when}  ${eventId}  ${type}  ${destination}  ${state}${error}`))
          lines += 1
          if (lines >= limit) return { json: { lines } }
        }
      }
      await wait(everyMs, signal)
    }
    return { json: { lines } }
  },
}
