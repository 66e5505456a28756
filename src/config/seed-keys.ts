/**
 * Keys of other outboxes' configuration files, so that such a file can be kept: sections `server`, `outbox`,
 * `outbox.retry`, `outbox.cleanup` and `databases`, in snake case or camel case. What they mean here is said once, in
 * this file; everything behind it knows only our own names.
 */
import { parseDuration } from './duration.ts'
import { ConfigError, refuseValue, requireOne } from './errors.ts'

export type Section = Readonly<Record<string, unknown>>

export const isSection = (value: unknown): value is Section =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const camel = (key: string): string =>
  /^[a-z0-9]+(?:_[a-z0-9]+)+$/.test(key)
    ? key.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
    : key

/**
 * What one section says, camel case throughout; the values are as they were. A name in both cases is refused, because
 * one of the values would go unseen.
 */
export const camelKeys = (section: Section, at: string, where: string): Section => {
  const written = new Map<string, string>()
  const said = Object.entries(section).filter(([, value]) => value !== undefined)
  for (const [key] of said) {
    const name = at === '' ? key : `${at}.${key}`
    requireOne(written.get(camel(key)), name, where)
    written.set(camel(key), name)
  }
  return Object.fromEntries(said.map(([key, value]) => [camel(key), value]))
}

/** Seconds as a number, or a duration as everywhere. */
const seconds = (key: string, value: unknown, where: string): string => {
  if (typeof value === 'string') return value
  if (typeof value === 'number' && value >= 0) return `${value}s`
  return refuseValue(key, value, 'seconds, or a duration such as 5s', where)
}

/** The shortest pause there is stands for "no pause": a poller that never waits would burn a core. */
const NO_PAUSE_MS = 10

const rename = (section: Section, from: string, to: string, at: string): Section => {
  if (!(from in section)) return section
  const { [from]: value, ...rest } = section
  if (to in rest)
    throw new ConfigError(`${at}.${from} and ${at}.${to} are the same setting; keep one of them`, {
      key: `${at}.${from}`,
    })
  return { ...rest, [to]: value }
}

const withRetry = (given: Section, at: string, where: string): Section => {
  let retry = camelKeys(given, at, where)
  for (const [from, to] of [
    ['baseDelaySeconds', 'base'],
    ['maxBackoffSeconds', 'max'],
  ] as const) {
    if (from in retry)
      retry = rename({ ...retry, [from]: seconds(`${at}.${from}`, retry[from], where) }, from, to, at)
  }
  retry = rename(retry, 'backoffMultiplier', 'multiplier', at)
  const { jitter, jitterFactor, ...rest } = retry
  if (jitter === false) return { ...rest, jitter: 0 }
  if (jitterFactor !== undefined) return { ...rest, jitter: jitterFactor }
  return jitter === undefined || jitter === true ? rest : { ...rest, jitter }
}

const withCleanup = (outbox: Section, given: Section, at: string, where: string): Section => {
  const known = new Map([
    ['publishedRetentionHours', 'retentionDoneHours'],
    ['abandonedRetentionHours', 'retentionDeadHours'],
  ])
  let all = outbox
  for (const [key, value] of Object.entries(camelKeys(given, `${at}.cleanup`, where))) {
    const to = known.get(key)
    if (to !== undefined) all = rename({ ...all, [key]: value }, key, to, at)
    else if (key === 'cleanupIntervalTicks') all = { ...all, cleanupIntervalTicks: value }
    else
      throw new ConfigError(
        unknownKey(`${at}.cleanup.${key}`, [...known.keys(), 'cleanupIntervalTicks'], where),
        { key: `${at}.cleanup.${key}` },
      )
  }
  return all
}

const unknownKey = (key: string, known: readonly string[], where: string): string =>
  `${key} is not known (${where}); there are: ${known.join(', ')}`

/** What cleanups are counted in where the file names no tick, or one without a pause. */
const USUAL_TICK_MS = 1_000

/** A section of settings in our own names. */
export const translateOutbox = (given: Section, at: string, where: string): Section => {
  const { cleanup, retry, ...rest } = camelKeys(given, at, where)
  let outbox: Section = isSection(cleanup) ? withCleanup(rest, cleanup, at, where) : rest
  if (isSection(retry)) outbox = { ...outbox, retry: withRetry(retry, `${at}.retry`, where) }
  else if (retry !== undefined)
    refuseValue(`${at}.retry`, retry, 'a section with maxAttempts, base, max …', where)
  if (cleanup !== undefined && !isSection(cleanup)) refuseValue(`${at}.cleanup`, cleanup, 'a section', where)
  const { cleanupIntervalTicks, tickInterval } = outbox
  const tick = tickInterval === undefined ? null : seconds(`${at}.tickInterval`, tickInterval, where)
  const tickMs = tick === null ? null : parseDuration(tick)
  if (cleanupIntervalTicks !== undefined) {
    if (typeof cleanupIntervalTicks !== 'number')
      refuseValue(`${at}.cleanup.cleanupIntervalTicks`, cleanupIntervalTicks, 'a number of ticks', where)
    const ms = Math.min(Number(cleanupIntervalTicks) * (tickMs || USUAL_TICK_MS), 7 * 24 * 3_600_000)
    outbox = rename({ ...outbox, cleanupIntervalTicks: ms }, 'cleanupIntervalTicks', 'cleanupIntervalMs', at)
  }
  if (tick !== null) {
    const value = tickMs === 0 ? `${NO_PAUSE_MS}ms` : tick
    outbox = rename({ ...outbox, tickInterval: value }, 'tickInterval', 'pollInterval', at)
  }
  outbox = rename(outbox, 'messagesPerTick', 'pollBatchSize', at)
  return rename(outbox, 'broker', 'serve', at)
}

const SUBSCRIPTIONS = ['stream', 'event_store', 'eventStore']

/**
 * Whether the outbox is on: `subscription: 'stream'` turns it on, `event_store` off, `enableOutbox` says so itself,
 * and without a word it is on. Two that contradict each other are refused.
 */
export const isEnabled = (root: Section, where: string): boolean => {
  const server = isSection(root.server) ? camelKeys(root.server, 'server', where) : {}
  const subscription = root.subscription ?? server.defaultSubscriptionType
  const { enableOutbox } = root
  if (subscription !== undefined && !SUBSCRIPTIONS.includes(String(subscription)))
    refuseValue('subscription', subscription, 'stream or event_store', where)
  if (enableOutbox !== undefined && typeof enableOutbox !== 'boolean')
    refuseValue('enableOutbox', enableOutbox, 'true or false', where)
  const streams = subscription === undefined ? null : subscription === 'stream'
  if (streams !== null && enableOutbox !== undefined && streams !== enableOutbox) {
    const why =
      enableOutbox === true
        ? 'the outbox would send to streams that subscribers of the event store never read'
        : 'subscribers would wait for a stream that nobody sends to'
    throw new ConfigError(
      `enableOutbox = ${enableOutbox} contradicts subscription = "${subscription}": ${why}; drop one of them (${where})`,
      { key: 'enableOutbox', value: enableOutbox },
    )
  }
  return (enableOutbox as boolean | undefined) ?? streams ?? true
}
