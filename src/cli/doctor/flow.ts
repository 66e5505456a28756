/** Checks that ask the outbox itself: the same for every database. */
import { formatDuration } from '../../config/duration.ts'
import type { LoadedOutbox } from '../../config/load-config.ts'
import { UNROUTED } from '../../core/model/delivery.ts'
import {
  destinationText,
  type OutboxOverview,
  retireText,
  serveText,
  takeOverview,
  waitingOf,
} from '../overview.ts'
import { agoText, timeText } from '../show.ts'
import { count, deliveriesText, waitingText } from '../text.ts'
import { type Finding, ok, problem, skipped, warning } from './finding.ts'

const LAG_MS = 60_000
/** Between the two looks that make a trend. */
const TREND_MS = 1_000

type Destination = OutboxOverview['destinations'][number]

const waiting = ({ counts }: Destination): number => waitingOf(counts)

export const checkSchema = async ({ outbox }: LoadedOutbox): Promise<Finding> => {
  const { current, latest } = await outbox.schema.status()
  if (current === latest) return ok('schema', `version ${current}, as this release needs it`)
  if (current > latest)
    return problem(
      'schema',
      `version ${current}, and this release knows only ${latest}`,
      'update posthaste here, or run this release with migrate: false until you do',
    )
  const state = current === 0 ? 'the tables do not exist' : `version ${current}, this release needs ${latest}`
  return problem('schema', state, 'run posthaste migrate')
}

const checkWorkers = ({ workers, destinations }: OutboxOverview): Finding => {
  const alive = workers.filter(({ fenced, expiresInMs }) => !fenced && expiresInMs > 0)
  if (alive.length > 0)
    return ok('worker alive', `${alive.length}: ${alive.map(({ name }) => name).join(', ')}`)
  const backlog = destinations.reduce((sum, one) => sum + waiting(one), 0)
  const text = `no worker is alive, and ${waitingText(backlog)}`
  const remedy = 'start your application, or posthaste worker with its configuration'
  return backlog > 0
    ? problem('worker alive', text, remedy)
    : warning('worker alive', 'no worker is alive', remedy)
}

const checkServed = ({ destinations }: OutboxOverview, loaded: LoadedOutbox): readonly Finding[] =>
  destinations.flatMap((one) => {
    const { destination, state } = one
    const left = waiting(one)
    // Without any worker that is said already.
    if (left === 0 || destination === UNROUTED) return []
    const text = `"${destination}" is ${state}, and ${waitingText(left)}`
    const remedies: Readonly<Record<typeof state, readonly Finding[]>> = {
      serving: [],
      // That is said of its lanes.
      'taking over': [],
      paused: [warning('destination served', text, `posthaste resume ${destination}`)],
      // Published by a process that had not renewed yet, or that still declares it.
      retired: [
        warning('destination served', text, `again: ${retireText(destination)}, or declare it again`),
      ],
      unserved: [problem('destination served', text, serveText(loaded, destination))],
    }
    return remedies[state]
  })

/** Nobody will ever take those of a destination that is retired, and nobody has to. */
const checkOrphans = ({ destinations }: OutboxOverview): Finding => {
  const gone = destinations.flatMap(({ state, leftLanes }) => (state === 'retired' ? [] : leftLanes))
  if (gone.length === 0) return ok('orphan lanes', 'every lane that is taken belongs to a live worker')
  const lanes = gone.reduce((sum, left) => sum + left.lanes, 0)
  const names = new Set(gone.map(({ worker }) => worker))
  return warning(
    'orphan lanes',
    `${count(lanes, 'lane')} ${lanes === 1 ? 'belongs' : 'belong'} to ${[...names].join(', ')}, whose lease ran out`,
    'a live worker takes them when it has watched that lease for as long as it was granted; start one if none lives',
  )
}

const checkBreakers = ({ destinations, atMs }: OutboxOverview): readonly Finding[] =>
  destinations.flatMap(({ destination, openBreakers }) =>
    openBreakers.map(({ worker, sinceMs }) =>
      warning(
        'breakers',
        `that of ${worker} for "${destination}" is open since ${timeText(sinceMs)} (${agoText(sinceMs, atMs)})`,
        'it cannot reach the destination: its log says why; it goes on by itself once it can',
      ),
    ),
  )

/** Of each destination that has some in this state. */
const checkState =
  (state: 'dead' | 'retry', name: string, say: (deliveries: string, is: string) => string, remedy: string) =>
  ({ destinations }: OutboxOverview): readonly Finding[] =>
    destinations.flatMap(({ destination, counts }) => {
      const some = counts[state]
      if (some === 0) return []
      const deliveries = `${deliveriesText(some)} to "${destination}"`
      return [warning(name, say(deliveries, some === 1 ? 'is' : 'are'), remedy)]
    })

const checkDead = checkState(
  'dead',
  'dead letters',
  (deliveries, is) => `${deliveries} ${is} dead`,
  'posthaste dead list',
)

const checkRetries = checkState(
  'retry',
  'retries',
  (deliveries, is) => `${deliveries} failed and ${is} to be tried again`,
  'posthaste events list --status retry, and posthaste why with the id of one says what went wrong',
)

const isSent = ({ state }: Destination): boolean => state === 'serving' || state === 'taking over'

const checkTrend = (before: OutboxOverview, after: OutboxOverview): readonly Finding[] =>
  after.destinations.flatMap((now) => {
    const { destination, oldestLagMs } = now
    const then = before.destinations.find((one) => one.destination === destination)
    const growth = then === undefined ? 0 : waiting(now) - waiting(then)
    if (oldestLagMs === null || oldestLagMs < LAG_MS) return []
    // The oldest may be a dead head, and those behind it: that is said of dead letters.
    if (!isSent(now) || waiting(now) === 0) return []
    const text = `"${destination}" lags ${formatDuration(oldestLagMs)}, ${waitingText(waiting(now))}, and the backlog ${growth > 0 ? 'grows' : 'does not grow'}`
    const remedy =
      'add workers or concurrency, or look at posthaste dead list and the log of its worker: the place may be unreachable'
    return [growth > 0 ? problem('backlog', text, remedy) : warning('backlog', text, remedy)]
  })

/** How late something is that nobody sends says nothing about those who send. */
const noTrend = ({ destinations }: OutboxOverview): Finding => {
  const apart = destinations.filter((one) => waiting(one) > 0 && !isSent(one))
  if (apart.length === 0) return ok('backlog', 'nothing that is due waits for longer than a minute')
  const names = apart.map(({ destination, state }) => `"${destinationText(destination)}" is ${state}`)
  const text = `what waits where nobody sends is left out: ${names.join(', ')}`
  return destinations.some(isSent)
    ? ok('backlog', `nothing that can be sent is due for longer than a minute; ${text}`)
    : skipped('backlog', text)
}

export const checkFlow = async (loaded: LoadedOutbox): Promise<readonly Finding[]> => {
  const before = await takeOverview(loaded, null)
  await new Promise((resolve) => setTimeout(resolve, TREND_MS))
  const after = await takeOverview(loaded, before)
  const served = checkServed(after, loaded)
  const breakers = checkBreakers(after)
  const retries = checkRetries(after)
  const dead = checkDead(after)
  const trend = checkTrend(before, after)
  return [
    checkWorkers(after),
    ...(served.length > 0
      ? served
      : [ok('destination served', 'nothing waits for a destination that nobody serves')]),
    checkOrphans(after),
    ...(breakers.length > 0 ? breakers : [ok('breakers', 'every live worker reaches its destinations')]),
    ...(retries.length > 0 ? retries : [ok('retries', 'none')]),
    ...(dead.length > 0 ? dead : [ok('dead letters', 'none')]),
    ...(trend.length > 0 ? trend : [noTrend(after)]),
  ]
}
