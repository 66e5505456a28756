import { formatDuration } from '../../config/duration.ts'
import type { LoadedOutbox } from '../../config/load-config.ts'
import { isAlive } from '../../core/inspection.ts'
import { UNROUTED } from '../../core/model/delivery.ts'
import type { DeliveryStory, EventStory } from '../../core/settled-by.ts'
import type { BlockedKey, DeliveryView, RegisteredDestination, WorkerView } from '../../core/spi/index.ts'
import type { Command } from '../command.ts'
import { findEvent } from '../filters.ts'
import { destinationText, ownersOf, retireText, serveText } from '../overview.ts'
import { agoText, STATUS_COLOURS, settlerText, timeText } from '../show.ts'
import { clean } from '../text.ts'

interface Facts {
  readonly loaded: LoadedOutbox
  readonly detail: EventStory
  readonly registered: readonly RegisteredDestination[]
  readonly workers: readonly WorkerView[]
  readonly blocked: readonly BlockedKey[]
  readonly now: number
}

/** As many as can be asked for. */
const MOST = 10_000

/** A lane's owner reads within its poll interval; what is due for longer has another reason. */
const SOON_MS = 10_000

/** Of what has no later run: who gave it up or corrected it, and why, where the audit trail names its id. */
const givenUp = async ({ loaded }: Facts, { id }: DeliveryView): Promise<string> => {
  const entry = (await loaded.outbox.inspect.audit({ limit: MOST })).find(
    ({ action, target }) => (action === 'discard' || action === 'edit') && target.includes(id),
  )
  if (entry === undefined) return 'An operator gave it up.'
  const { action, actor, reason, target } = entry
  const said = reason === null ? '.' : `: ${reason}`
  if (action === 'discard') return `${actor} gave it up${said}`
  const { replacedBy } = JSON.parse(target) as { readonly replacedBy: string }
  return `Event ${replacedBy} took its place, as ${actor} corrected it${said}`
}

const finished = async (facts: Facts, delivery: DeliveryStory): Promise<readonly string[]> => {
  const { detail, now } = facts
  const { status, run, attempts, finishedAtMs, lastError, settler } = delivery
  const when = finishedAtMs === null ? '' : ` at ${timeText(finishedAtMs)} (${agoText(finishedAtMs, now)})`
  if (status === 'done') {
    const tries = attempts === 1 ? 'at the first attempt' : `at attempt ${attempts}`
    const by = settler === null ? '' : ` by ${settlerText(settler)}`
    return [`Delivered${when}${by}; ${tries}${run > 1 ? ` of run ${run}` : ''}.`]
  }
  const next = detail.deliveries.find(
    (other) => other.destination === delivery.destination && other.run > run,
  )
  const follow = next === undefined ? await givenUp(facts, delivery) : `Run ${next.run} took its place.`
  return [`Discarded${when}. ${follow}`, ...(lastError === null ? [] : [`Its last error was: ${lastError}`])]
}

/** What to do about what is dead. */
const mendText = (id: string): string =>
  `Mend the cause, then: posthaste dead redrive ${id}; or correct it with dead edit, or give it up with dead discard.`

const dead = ({ detail, blocked }: Facts, delivery: DeliveryView): readonly string[] => {
  const last = detail.attempts.filter(({ deliveryId }) => deliveryId === delivery.id).at(-1)
  const code = last?.code === null || last === undefined ? '' : ` (${last.code})`
  const by = last === undefined ? '' : `, by ${last.worker}, at ${timeText(last.atMs)}`
  const waiting = blocked.find(({ headDeliveryId }) => headDeliveryId === delivery.id)?.waiting ?? 0
  return [
    `Dead after ${delivery.attempts === 1 ? 'one attempt' : `${delivery.attempts} attempts`}${by}: ${delivery.lastError ?? 'no reason was written down'}${code}`,
    ...(waiting > 0 ? [`It holds its key: ${waiting} behind it wait.`] : []),
    mendText(delivery.id),
  ]
}

const waitingForKey = ({ blocked }: Facts, { key, destination, id }: DeliveryView): readonly string[] => {
  const head = blocked.find((one) => one.key === key && one.destination === destination)
  if (head === undefined || head.headDeliveryId === id) return []
  const state =
    head.headStatus === 'retry'
      ? `is retried (${head.headAttempts} failed attempts)`
      : `is ${head.headStatus}`
  return [
    `It waits for the head of its key "${key}": delivery ${head.headDeliveryId} ${state}. The order of a key is kept, so it comes first.`,
    // Nothing else helps before, neither a worker nor time.
    ...(head.headStatus === 'dead' ? [mendText(head.headDeliveryId)] : []),
    `posthaste why ${head.headDeliveryId} says more about that one.`,
  ]
}

/** Breakers live in the memory of each process; what others know of them is what it said when it last renewed. */
const breakerOf = ({ name, openBreakers }: WorkerView, destination: string, now: number): readonly string[] =>
  openBreakers
    .filter((one) => one.destination === destination)
    .map(
      ({ sinceMs }) =>
        `The breaker of ${name} is open since ${timeText(sinceMs)} (${agoText(sinceMs, now)}): it cannot reach "${destination}". ` +
        'No attempt is spent meanwhile, and it tries again by itself; its log says what went wrong.',
    )

const TAKEN_WHEN = 'when it has watched that lease for as long as it was granted'

/** Whoever reads a lane, of whatever destination, routes what is not routed yet. */
const unrouted = async ({ loaded, workers }: Facts): Promise<readonly string[]> => {
  const said =
    'It was stored by SQL, or by a process that was not started; any started worker that has a lane routes it.'
  if (!workers.some(isAlive)) return [said, 'No worker is alive. Start one: posthaste worker']
  const { live, left } = ownersOf(await loaded.outbox.inspect.lanes(), workers)
  if (live > 0 || left.length === 0) return [said]
  const names = left.map(({ worker }) => worker).join(', ')
  return [
    said,
    `The live workers have none yet: the lanes are those that ${names} had when its lease ran out. A live worker takes them ${TAKEN_WHEN}.`,
  ]
}

const serving = async (facts: Facts, { destination, lane }: DeliveryView): Promise<readonly string[]> => {
  const { loaded, workers, registered, now } = facts
  const alive = workers.filter(isAlive)
  const able = alive.filter((worker) => worker.destinations.includes(destination))
  if (able.length === 0) {
    if (registered.some(({ name, patterns }) => name === destination && patterns.length === 0))
      return [
        `Destination "${destination}" is retired, and nobody serves it. ${retireText(destination)} gives up what came since.`,
      ]
    const others =
      alive.length === 0
        ? 'no worker is alive'
        : alive.length === 1
          ? 'the only live worker serves other destinations'
          : `the ${alive.length} live workers serve other destinations`
    return [
      `Nobody serves destination "${destination}": ${others}. What to do: ${serveText(loaded, destination)}`,
    ]
  }
  const lanes = await loaded.outbox.inspect.lanes({ destination })
  const id = lanes.find((one) => one.lane === lane)?.workerId
  const owner = able.find(({ workerId }) => workerId === id)
  if (owner === undefined) {
    const gone = workers.find(({ workerId }) => workerId === id)
    return [
      gone === undefined
        ? `Nobody has its lane ${lane} at this moment; a live worker takes it within a renewal of its lease.`
        : `${gone.name} had its lane ${lane} when its lease ran out. A live worker takes it ${TAKEN_WHEN}.`,
    ]
  }
  const until = timeText(now + owner.expiresInMs)
  return [
    `Its lane ${lane} belongs to ${owner.name}, until ${until} unless it is renewed.`,
    ...breakerOf(owner, destination, now),
  ]
}

const unfinished = async (facts: Facts, delivery: DeliveryView): Promise<readonly string[]> => {
  const { status, destination, availableAtMs, attempts, lastError, createdAtMs } = delivery
  if (destination === UNROUTED) return await unrouted(facts)
  const dueInMs = availableAtMs === null ? 0 : availableAtMs - facts.now
  const said: string[] = []
  if (status === 'scheduled')
    said.push(`It is scheduled: due ${agoText(availableAtMs ?? facts.now, facts.now)}.`)
  if (status === 'retry') {
    const due =
      dueInMs > 0 ? `the next attempt is due in ${formatDuration(dueInMs)}` : 'the next attempt is due now'
    said.push(
      `It failed ${attempts === 1 ? 'once' : `${attempts} times`}, ${due}. The last error was: ${lastError ?? 'not written down'}`,
    )
  }
  if (status === 'pending' && dueInMs > 0)
    said.push(
      `The process that published it has claimed it for another ${formatDuration(dueInMs)} and sends it from memory.`,
    )
  said.push(...waitingForKey(facts, delivery))
  const registered = facts.registered.find(({ name }) => name === destination)
  if (registered?.paused === true)
    said.push(`Destination "${destination}" is paused: posthaste resume ${destination}`)
  if (registered?.ratePerSecond != null)
    said.push(`Destination "${destination}" is limited to ${registered.ratePerSecond} a second and process.`)
  const owner = await serving(facts, delivery)
  said.push(...owner)
  const isUnexplained = said.length === 1 && owner[0]?.startsWith('Its lane') === true
  if (!isUnexplained) return said
  const age = facts.now - createdAtMs
  if (age < SOON_MS) return [...said, 'It is due and will be sent in a moment.']
  return [
    ...said,
    'It is due, and that process can reach the destination as far as it said, so it is busy with what comes before it.',
  ]
}

const explain = async (facts: Facts, delivery: DeliveryStory): Promise<readonly string[]> => {
  if (delivery.status === 'done' || delivery.status === 'discarded') return await finished(facts, delivery)
  if (delivery.status === 'dead') return dead(facts, delivery)
  return await unfinished(facts, delivery)
}

export const why: Command = {
  name: 'why',
  group: 'Look',
  summary: 'in plain words: what became of an event, or why it waits',
  operands: 'ID',
  counts: [1, 1],
  about: [
    'ID is that of an event or of a delivery. Only the newest run of each destination is explained, and the delivery that is named; events show has them all.',
  ],
  flags: [],
  examples: [['posthaste why 019a3c1e-7b1f-7c33-9d52-0a4f6c1b2d3e', 'where is my event?']],
  async run(session) {
    const [loaded, detail, one] = await findEvent(session, session.operands[0] ?? '')
    const [{ destinations }, workers, blocked] = await Promise.all([
      loaded.host.registered(),
      loaded.outbox.inspect.workers(),
      loaded.outbox.inspect.blockedKeys({ limit: MOST }),
    ])
    const facts: Facts = { loaded, detail, registered: destinations, workers, blocked, now: Date.now() }
    const newest = detail.deliveries.filter(
      ({ destination, run }) =>
        !detail.deliveries.some((other) => other.destination === destination && other.run > run),
    )
    const { id, type } = detail.event
    session.say(
      `${session.paint('bold', clean(type))} ${session.paint('cyan', id)}, stored ${agoText(detail.event.createdAtMs)}`,
    )
    const answers: object[] = []
    // What became of a run that another took the place of is what became of that one.
    const later = newest.filter(({ destination, run }) => destination === one?.destination && run > one.run)
    for (const delivery of one === null ? newest : [one, ...later]) {
      const reasons = await explain(facts, delivery)
      const { destination, status, run, finishedAtMs, settler } = delivery
      const which = run > 1 ? `, run ${run}` : ''
      session.say()
      session.say(
        `${session.paint('bold', clean(destinationText(destination)))}${which}: ${session.paint(STATUS_COLOURS[status] ?? 'bold', status)}`,
      )
      for (const reason of reasons) session.say(`  ${clean(reason)}`)
      const finishedAt = finishedAtMs === null ? null : timeText(finishedAtMs)
      answers.push({ deliveryId: delivery.id, destination, run, status, finishedAt, settler, reasons })
    }
    if (answers.length === 0) session.say('No destination hears of it: it is stored and sent nowhere.')
    return { json: { outbox: loaded.name, eventId: id, type, deliveries: answers } }
  },
}
