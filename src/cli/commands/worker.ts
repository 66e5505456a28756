import { ConfigError } from '../../config/errors.ts'
import type { LoadedConfig } from '../../config/load-config.ts'
import { type Said, saidByOption } from '../../config/settings.ts'
import { ERROR_CODES, OutboxError } from '../../core/errors.ts'
import { isAlive } from '../../core/inspection.ts'
import type { AttemptMessage } from '../../core/runtime/channels.ts'
import { SILENT_LOGGER } from '../../core/runtime/logger.ts'
import type { Logger, WorkerView } from '../../core/spi/index.ts'
import type { Command, Result } from '../command.ts'
import { EXIT } from '../exit-codes.ts'
import { Interrupted } from '../failures.ts'
import { listenText } from '../overview.ts'
import type { Session } from '../session.ts'
import { timeText } from '../show.ts'
import { clean, count, waitingText } from '../text.ts'
import { answerParent, heedParent, isChild, tellParent } from '../worker/child-channel.ts'
import { workerLogger } from '../worker/log.ts'
import { WorkerMetrics } from '../worker/metrics.ts'
import {
  deliverAndLook,
  deliverOnce,
  findLeft,
  hasStoppedShort,
  hearing,
  type Left,
  meantBy,
  type Pass,
  type Unreachable,
} from '../worker/once.ts'
import { runSingle } from '../worker/single.ts'
import { Supervisor } from '../worker/supervisor.ts'

const saidOf = (session: Session): readonly Said[] =>
  (
    [
      ['destinations', 'serve'],
      ['workers', 'workers'],
      ['health-port', 'healthPort'],
      ['health-host', 'healthHost'],
      ['log-level', 'logLevel'],
    ] as const
  ).flatMap(([flag, setting]) => {
    const text = session.text(flag)
    return text === undefined ? [] : [saidByOption(setting, `--${flag}`, text)]
  })

const LEVELS = ['debug', 'info', 'warn', 'error', 'silent']

/** A bad flag is a slip of whoever typed it; the same value in a file is a configuration that cannot work. */
const checkFlags = (session: Session): void => {
  session.whole('workers', 1, [1, 100])
  session.whole('health-port', 0, [0, 65_535])
  const level = session.text('log-level') ?? 'info'
  if (!LEVELS.includes(level))
    session.refuse(`--log-level must be one of ${LEVELS.join(', ')}, not "${level}"`)
}

const unheardText = (destination: string): string =>
  `"${destination}" has neither a publisher nor a listener here`

/** Served all the same, its deliveries would spend their attempts and die. */
const unheard = (destination: string, first = ''): OutboxError =>
  new OutboxError(ERROR_CODES.noListener, `${first}${unheardText(destination)}: ${listenText(destination)}`, {
    destination,
  })

const requireWork = ({ enabled, file, outboxes }: LoadedConfig): void => {
  if (!enabled)
    throw new ConfigError(
      `the outbox is turned off (${file}): by subscription = "event_store" or enableOutbox = false`,
    )
  for (const { host } of outboxes) {
    const silent = host.unheard()
    const named = host.served().filter(({ name }) => silent.includes(name))
    if (named[0] !== undefined) throw unheard(named[0].name)
  }
  if (outboxes.some(({ host }) => host.served().length > 0)) return
  const [first] = outboxes.flatMap(({ host }) => host.unheard())
  if (first !== undefined) throw unheard(first, 'there is nothing to deliver to: ')
  throw new ConfigError(
    'there is nothing to deliver to: no outbox has a destination with a publisher or a listener. Destinations are code: ' +
      'export the outbox, with its listeners, from the configuration or from the file that "module" names',
  )
}

/** Of the process that this is: a child of a supervisor has a number. */
const indexOf = ({ streams }: Session): number | null => {
  const index = streams.environment.POSTHASTE_WORKER_INDEX
  return index === undefined ? null : Number(index)
}

/** A child answers to nobody, but its logs are like its parent's. */
const wantsJson = ({ isJson, streams }: Session): boolean =>
  isJson || streams.environment.POSTHASTE_WORKER_JSON === '1'

/**
 * Loads with a logger for outboxes that have none, and lets them make their tables as their code says. They measure when
 * somebody can ask for it.
 */
const loadForWork = async (
  session: Session,
  quiet: boolean,
  metrics: WorkerMetrics | null,
): Promise<[LoadedConfig, Logger]> => {
  // Until the settings are read nobody knows the level; nothing is logged before the outboxes start.
  let logger: Logger = SILENT_LOGGER
  const late: Logger = {
    isEnabled: (level) => logger.isEnabled?.(level) ?? true,
    log: (...line) => logger.log(...line),
  }
  session.makesFiles = true
  const config = await session.load(
    {
      under: (given, loaded) => ({
        ...(given.logger === undefined ? { logger: late } : {}),
        ...(loaded.worker.healthPort === null ? {} : metrics?.settingsFor(given, loaded)),
      }),
    },
    saidOf(session),
  )
  const index = indexOf(session)
  const how = { isJson: wantsJson(session), noColour: session.isOn('no-color') }
  logger = workerLogger(quiet ? 'silent' : config.worker.logLevel, index, how)
  if (index === null && config.unknownVariables.length > 0)
    logger.log('warn', 'variables that are not settings are ignored; posthaste config shows what is meant', {
      variables: config.unknownVariables,
    })
  return [config, logger]
}

const VALUE_FLAGS = [
  'config',
  'outbox',
  'url',
  'schema',
  'prefix',
  'table',
  'destinations',
  'log-level',
  // A child listens nowhere; it measures because its parent can be asked.
  'health-port',
] as const

/** What a child needs to be told; the rest is the parent's. */
const childArgs = (session: Session): readonly string[] => [
  'worker',
  ...VALUE_FLAGS.flatMap((flag) => {
    const text = session.text(flag)
    return text === undefined ? [] : [`--${flag}=${text}`]
  }),
  ...session.list('set').map((one) => `--set=${one}`),
  ...(session.isOn('no-color') ? ['--no-color'] : []),
  '--workers=1',
]

/** Also where the answer is heard: nobody asked it to stop, so a service manager that restarts what fails has to restart it. */
const codeOf = (session: Session, exitCode: number): number =>
  exitCode === EXIT.ok && session.isUnread ? EXIT.pipe : exitCode

const supervise = async (session: Session, config: LoadedConfig, logger: Logger): Promise<Result> => {
  const { workers, healthPort, healthHost } = config.worker
  const drainMs = Math.max(...config.outboxes.map(({ host }) => host.options.drainMs))
  const { signal } = session
  session.streams.answers.isShared = true
  const code = await new Supervisor({
    workers,
    args: childArgs(session),
    env: session.isJson ? { POSTHASTE_WORKER_JSON: '1' } : {},
    drainMs,
    healthPort,
    healthHost,
    logger,
    signal,
    started: (port) =>
      session.say(`${workers} workers deliver${port === null ? '' : `; health on port ${port}`}`),
  }).run()
  const exitCode = codeOf(session, code)
  return { exitCode, json: { workers, exitCode } }
}

const work = async (
  session: Session,
  config: LoadedConfig,
  logger: Logger,
  metrics: WorkerMetrics,
  signal: AbortSignal,
): Promise<Result> => {
  const withoutHealth = isChild() ? { ...config, worker: { ...config.worker, healthPort: null } } : config
  const code = await runSingle({
    config: withoutHealth,
    logger,
    metrics,
    signal,
    heedsHangup: !isChild(),
    reload: async () => {
      const [again] = await loadForWork(session, false, metrics)
      requireWork(again)
      return again
    },
    started: (health, delivers) => {
      if (isChild()) {
        answerParent({ metrics: () => metrics.text(), delivers })
        tellParent('ready')
        return
      }
      const processors = config.outboxes.flatMap((outbox) => outbox.processors)
      session.say(processors.map(clean).join('\n'))
      if (health !== null) session.say(`health on port ${health.port}`)
    },
  })
  const exitCode = codeOf(session, code)
  return { exitCode, json: { workers: 1, exitCode } }
}

export const worker: Command = {
  name: 'worker',
  group: 'Run',
  summary: 'delivers, with the listeners and publishers of your configuration',
  operands: '',
  counts: [0, 0],
  about: [
    'Runs until Ctrl-C or SIGTERM, then drains: running deliveries may end for drainMs, the rest is given back. Events that are ' +
      'not delivered stay in the database, so stopping, and even kill -9, loses nothing.',
    'Lanes are shared among all processes that serve a destination, so workers are added and taken away at will. With --workers N ' +
      'this is a supervisor of N processes: one that crashes is started again, SIGHUP replaces them one after another, SIGTERM drains all.',
    'Logs go to standard error, as lines to read in a terminal, as JSON lines elsewhere and with --json, unless the outbox has a logger of its own. With --health-port, /health says that the ' +
      'process lives, /ready that it delivers, and /metrics what Prometheus asks for; a supervisor answers for all its processes. A single worker reads a JSON or TOML configuration again when it changes, and at SIGHUP. In a terminal SIGHUP says that it was closed: then all drain, as they do at the next line they write when whoever reads the output has left.',
  ],
  flags: [
    { name: 'workers', value: 'N', about: 'processes under a supervisor, 1 to 100 (default 1)' },
    { name: 'destinations', value: 'A,B', about: 'only these; others wait for a process that serves them' },
    {
      name: 'once',
      about:
        'deliver what is due now, and end; for cron. Exit code 0 also when deliveries failed, or wait for a destination that cannot be reached: they are counted',
    },
    {
      name: 'limit',
      value: 'N',
      about: 'attempt at most N deliveries that are due now, and end; means --once',
    },
    { name: 'health-port', value: 'PORT', about: 'health and metrics endpoints; 0 lets the system choose' },
    { name: 'health-host', value: 'HOST', about: 'where they listen (default 127.0.0.1)' },
    { name: 'log-level', value: 'LEVEL', about: 'debug, info, warn, error or silent (default info)' },
  ],
  examples: [
    ['posthaste worker', 'one process, all destinations'],
    ['posthaste worker --workers 4 --health-port 8080', 'four, restarted when they crash'],
    ['posthaste worker --once --limit 100 --json', 'at most a hundred, then end'],
    ['posthaste worker --destinations mailer', 'a process for the mail alone'],
  ],
  async run(session) {
    const isOnce = session.isOn('once') || session.text('limit') !== undefined
    const limit = session.text('limit') === undefined ? null : session.whole('limit', 1, [1, 1_000_000])
    if (isOnce && session.text('workers') !== undefined)
      session.refuse('--once and --workers exclude each other')
    if (isOnce && session.text('health-port') !== undefined)
      session.refuse('--once and --health-port exclude each other: one pass is over before anybody can ask')
    checkFlags(session)
    const signal = isChild() ? AbortSignal.any([session.signal, heedParent(session)]) : session.signal
    const metrics = new WorkerMetrics((indexOf(session) ?? 0) === 0)
    const [config, logger] = await loadForWork(session, false, isOnce ? null : metrics)
    requireWork(config)
    if (isOnce) {
      const meant = meantBy(config.outboxes)
      const { pass, unreachable } = await deliverAndLook(config.outboxes, limit, signal)
      session.say(
        `${pass.done} done, ${pass.dead} dead, ${count(pass.retried, 'failed attempt')} followed by another`,
      )
      for (const one of unreachable) session.say(unreachableText(one))
      // With a limit something is left on purpose.
      const isFull = limit !== null && pass.claimed >= limit
      if (!isFull) await requireWhole(session, config, meant, { ...pass, unreachable })
      const left = isFull ? null : await findLeft(config.outboxes, meant)
      return { json: { ...pass, unreachable, ...sayLeft(session, left) } }
    }
    return config.worker.workers > 1
      ? await supervise(session, config, logger)
      : await work(session, config, logger, metrics, signal)
  },
}

/** A pass that a signal stopped is a pass like any other, if nothing was left for another one. */
const requireWhole = async (
  { signal }: Session,
  { outboxes }: LoadedConfig,
  meant: ReturnType<typeof meantBy>,
  told: Readonly<Record<string, unknown>>,
): Promise<void> => {
  if (signal.aborted && (await hasStoppedShort(outboxes, meant)))
    throw new Interrupted('stopped: what was not delivered waits; run it again to go on', told)
}

const sayLeft = (session: Session, left: Left | null): Readonly<Record<string, unknown>> => {
  const { paused, owners, unheard: silent } = left ?? { paused: [], owners: [], unheard: [] }
  for (const name of paused) session.say(`${clean(name)} is paused: what waits for it goes on after resume`)
  for (const name of silent)
    session.say(clean(`${unheardText(name)}: what waits for it stays. What to do: ${listenText(name)}`))
  for (const owner of owners) session.say(ownerText(owner))
  const elsewhere = owners.map(({ name, lanes, expiresInMs }) => ({ worker: name, lanes, expiresInMs }))
  return { paused, unheard: silent, elsewhere }
}

const unreachableText = ({ destination, waiting }: Unreachable): string =>
  `${clean(destination)} cannot be reached: ${waitingText(waiting)} for it; the log says why`

const ownerText = (owner: WorkerView): string => {
  const whose = `what waits in ${count(owner.lanes, 'lane')} of ${clean(owner.name)}`
  return isAlive(owner)
    ? `${whose} is left to it: its lease lasts until ${timeText(Date.now() + owner.expiresInMs)}, unless it renews it`
    : `${whose} is left: its lease ran out. posthaste worker takes it as soon as it has seen that lease stand still for as long as it lasts (15 s by default); --once watches nothing, and takes it when the lease is over for ten times as long.`
}

interface Tried {
  readonly eventId: string
  readonly destination: string
  /** Null when it was delivered. Not `error`, which says why a command could not do what it is for. */
  readonly lastError: string | null
}

/** The text of the error is in the database, unless it says nothing about the event. */
const tryOne = async (
  { outboxes }: LoadedConfig,
  signal: AbortSignal,
): Promise<{ readonly pass: Pass; readonly tried: Tried | null }> => {
  const heard: AttemptMessage[] = []
  const pass = await hearing(
    (message) => void heard.push(message),
    () => deliverOnce(outboxes, 1, signal),
  )
  const last = heard.at(-1)
  const one = last?.deliveries[0]
  if (last === undefined || one === undefined) return { pass, tried: null }
  const named = { eventId: one.eventId, destination: last.destination }
  if (one.verdict === 'done') return { pass, tried: { ...named, lastError: null } }
  if (one.verdict === 'outage')
    return {
      pass,
      tried: { ...named, lastError: `it cannot be reached${one.code === null ? '' : ` (${one.code})`}` },
    }
  for (const { outbox } of outboxes) {
    const detail = await outbox.inspect.event(one.eventId)
    const lastError = detail?.deliveries.find(({ id }) => id === one.id)?.lastError
    if (lastError != null) return { pass, tried: { ...named, lastError } }
  }
  return { pass, tried: { ...named, lastError: one.code ?? 'no reason was written down' } }
}

const becameText = (pass: Pass, idle: boolean): string => {
  if (idle) return 'nothing is due here'
  if (pass.done > 0) return 'delivered'
  if (pass.dead > 0) return 'failed: dead'
  return pass.retried > 0 ? 'failed: retried later' : 'failed: it waits, and spent no attempt'
}

export const consumeOne: Command = {
  name: 'consume-one',
  group: 'Run',
  summary: 'delivers one event that is due, and says what became of it',
  operands: '',
  counts: [0, 0],
  about: [
    'To try a listener by hand. Exit code 0 when it was delivered or when nothing was due (--json tells which), 1 when it failed.',
  ],
  flags: [{ name: 'destinations', value: 'A,B', about: 'only to one of these' }],
  examples: [['posthaste consume-one --destinations mailer', 'the next mail']],
  async run(session) {
    const { signal } = session
    const [config] = await loadForWork(session, true, null)
    requireWork(config)
    const meant = meantBy(config.outboxes)
    const { pass, tried } = await tryOne(config, signal)
    // An outage claims nothing, and yet something is due.
    const idle = pass.claimed === 0 && tried === null
    if (idle) await requireWhole(session, config, meant, { idle: false, ...pass })
    session.say(becameText(pass, idle))
    const left = sayLeft(session, idle ? await findLeft(config.outboxes, meant) : null)
    if (tried !== null) session.say(`  event ${tried.eventId}, to ${clean(tried.destination)}`)
    if (tried !== null && tried.lastError !== null)
      session.say(`  ${session.paint('red', clean(tried.lastError))}`)
    return {
      exitCode: idle || pass.done > 0 ? EXIT.ok : EXIT.failed,
      json: { idle, ...pass, ...tried, ...left },
    }
  },
}
