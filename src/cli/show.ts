/** Deliveries and times as people read them. */
import { formatDuration } from '../config/duration.ts'
import type { DeliveryStatus } from '../core/model/delivery.ts'
import { isUuid } from '../core/model/uuid.ts'
import type { EventStory, SettledBy } from '../core/settled-by.ts'
import type { AttemptView, DeliveryView, EventDetail } from '../core/spi/index.ts'
import { findEvent } from './filters.ts'
import type { Session } from './session.ts'
import type { Colour, Column } from './terminal.ts'
import { clean, cleanLines, count } from './text.ts'

export const STATUS_COLOURS: Readonly<Record<DeliveryStatus, Colour | null>> = {
  pending: null,
  done: 'green',
  retry: 'yellow',
  dead: 'red',
  discarded: 'dim',
  scheduled: 'cyan',
  held: 'yellow',
}

export const timeText = (ms: number | null): string => (ms === null ? '' : new Date(ms).toISOString())

/** `12m 5s ago`, or `in 3s` for what is to come. */
export const agoText = (ms: number, now = Date.now()): string =>
  ms <= now ? `${formatDuration(now - ms)} ago` : `in ${formatDuration(ms - now)}`

export const deliveryColumns = (now: number): readonly Column<DeliveryView>[] => [
  { title: 'event', text: ({ eventId }) => eventId, colour: () => 'cyan', whole: true },
  { title: 'type', text: ({ type }) => type, name: true },
  { title: 'destination', text: ({ destination }) => destination, name: true },
  { title: 'run', text: ({ run }) => (run === 1 ? '' : String(run)), align: 'right' },
  {
    title: 'state',
    text: ({ status }) => status,
    colour: ({ status }) => STATUS_COLOURS[status],
    whole: true,
  },
  { title: 'attempts', text: ({ attempts }) => String(attempts), align: 'right' },
  { title: 'stored', text: ({ createdAtMs }) => agoText(createdAtMs, now) },
  { title: 'key', text: ({ key }) => key ?? '', name: true },
  { title: 'last error', text: ({ lastError }) => lastError ?? '', flexible: true },
]

/** `worker 0198… (web-1:4711)`, with how it came by the delivery. */
export const settlerText = ({ workerId, worker, path }: SettledBy): string => {
  // Of a hot claim of a worker that is gone, only the end of the id is known.
  const id = isUuid(workerId) ? workerId : `…${workerId}`
  const how = path === 'hot' ? 'straight after its commit' : 'as the owner of its lane'
  return `worker ${id} (${worker ?? 'which has ended since'}), ${how}`
}

/** For JSON: times as text, and nothing that is not a plain value. */
export const plainDelivery = (delivery: DeliveryView): Readonly<Record<string, unknown>> => {
  const { createdAtMs, availableAtMs, finishedAtMs, diedAtMs, seq, ...rest } = delivery
  return {
    ...rest,
    seq: seq.toString(),
    createdAt: timeText(createdAtMs),
    availableAt: availableAtMs === null ? null : timeText(availableAtMs),
    finishedAt: finishedAtMs === null ? null : timeText(finishedAtMs),
    diedAt: diedAtMs === null ? null : timeText(diedAtMs),
  }
}

const plainAttempt = ({ atMs, ...rest }: AttemptView): Readonly<Record<string, unknown>> => ({
  ...rest,
  at: timeText(atMs),
})

const payloadText = ({ event: { data } }: EventDetail): string =>
  typeof data === 'string' ? data : `${data.byteLength} bytes: ${Buffer.from(data).toString('base64')}`

/** Shows the event that the operand names, and gives it back for more, with what --json prints of it. */
export const showNamed = async (
  session: Session,
): Promise<{ readonly detail: EventStory; readonly json: Readonly<Record<string, unknown>> }> => {
  const [{ name }, detail] = await findEvent(session, session.operands[0] ?? '')
  const withPayload = session.isOn('payload')
  sayEvent(session, detail, withPayload)
  return { detail, json: { outbox: name, ...plainEvent(detail, withPayload) } }
}

/** The whole story of an event; payload and headers only when they were asked for. */
const plainEvent = (detail: EventDetail, withPayload: boolean): Readonly<Record<string, unknown>> => {
  const { event, deliveries, attempts } = detail
  const { data, headers, createdAtMs, occurredAtMs, ...rest } = event as EventDetail['event'] & {
    readonly occurredAtMs?: number
  }
  return {
    event: {
      ...rest,
      createdAt: timeText(createdAtMs),
      ...(occurredAtMs === undefined ? {} : { occurredAt: timeText(occurredAtMs) }),
      ...(withPayload ? { headers, payload: payloadValue(data) } : {}),
    },
    deliveries: deliveries.map(plainDelivery),
    attempts: attempts.map(plainAttempt),
  }
}

const payloadValue = (data: EventDetail['event']['data']): unknown => {
  if (typeof data !== 'string') return { base64: Buffer.from(data).toString('base64') }
  try {
    return JSON.parse(data)
  } catch {
    return data
  }
}

const sayEvent = (session: Session, detail: EventStory, withPayload: boolean): void => {
  const { event, deliveries, attempts } = detail
  const now = Date.now()
  const facts: readonly (readonly [string, string | null | undefined])[] = [
    ['event', event.id],
    ['type', `${event.type} (version ${event.version})`],
    ['key', event.key],
    ['tenant', event.tenantId],
    ['aggregate', event.aggregateType === null ? null : `${event.aggregateType} ${event.aggregateId ?? ''}`],
    ['stored', `${timeText(event.createdAtMs)} (${agoText(event.createdAtMs, now)})`],
    [
      'payload',
      `${event.contentType}, ${count(event.size, 'byte')}${withPayload ? '' : '; --payload shows it'}`,
    ],
    ['replaces', event.replacesId],
  ]
  for (const [name, value] of facts) {
    if (value !== null && value !== undefined)
      session.say(`${session.paint('dim', name.padEnd(10))} ${clean(value)}`)
  }
  if (withPayload) {
    for (const [name, value] of Object.entries(event.headers)) session.say(`${clean(name)}: ${clean(value)}`)
    for (const line of cleanLines(payloadText(detail))) session.say(line)
  }
  session.say()
  if (deliveries.length === 0) session.say('No destination hears of it: it is stored and sent nowhere.')
  const stateText = ({ status, destination, run }: DeliveryView): string => {
    const next = deliveries.find((other) => other.destination === destination && other.run === run + 1)
    return status === 'discarded' && next !== undefined ? `discarded for run ${next.run}` : status
  }
  if (deliveries.length > 0)
    session.table(deliveries, [
      { title: 'delivery', text: ({ id }) => id, colour: () => 'cyan', whole: true },
      { title: 'destination', text: ({ destination }) => destination, name: true },
      { title: 'run', text: ({ run }) => String(run), align: 'right' },
      { title: 'state', text: stateText, colour: ({ status }) => STATUS_COLOURS[status] },
      { title: 'attempts', text: ({ attempts: made }) => String(made), align: 'right' },
      {
        title: 'when',
        text: ({ finishedAtMs, diedAtMs, availableAtMs }) => {
          const endedAtMs = finishedAtMs ?? diedAtMs
          if (endedAtMs !== null) return agoText(endedAtMs, now)
          return availableAtMs === null ? '' : `due ${agoText(availableAtMs, now)}`
        },
      },
      { title: 'last error', text: ({ lastError }) => lastError ?? '', flexible: true },
    ])
  for (const { id, status, finishedAtMs, settler } of deliveries) {
    if (status !== 'done' || settler === null) continue
    session.say()
    session.say(clean(`${id}: delivered at ${timeText(finishedAtMs)} by ${settlerText(settler)}`))
  }
  if (attempts.length === 0) return
  session.say()
  session.say(session.paint('bold', 'Failed attempts'))
  const deliveryOf = new Map(deliveries.map((delivery) => [delivery.id, delivery]))
  const whose: readonly Column<AttemptView>[] = [
    {
      title: 'destination',
      text: ({ deliveryId }) => deliveryOf.get(deliveryId)?.destination ?? '',
      name: true,
    },
    { title: 'run', text: ({ deliveryId }) => String(deliveryOf.get(deliveryId)?.run ?? ''), align: 'right' },
  ]
  const inOrder = attempts.toSorted((a, b) => a.atMs - b.atMs)
  session.table(inOrder, [
    { title: 'at', text: ({ atMs }) => timeText(atMs) },
    ...(deliveries.length > 1 ? whose : []),
    { title: 'attempt', text: ({ attempt }) => String(attempt), align: 'right' },
    { title: 'took', text: ({ durationMs }) => formatDuration(durationMs), align: 'right' },
    { title: 'by', text: ({ worker }) => worker },
    { title: 'code', text: ({ code }) => code ?? '', colour: () => 'yellow' },
    { title: 'message', text: ({ message }) => message, flexible: true },
  ])
}
