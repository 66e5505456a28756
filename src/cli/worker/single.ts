/** One process that delivers until it is told to stop: the worker itself, and each child of the supervisor. */
import { statSync } from 'node:fs'
import { isSettingsOnly } from '../../config/files.ts'
import type { LoadedConfig, LoadedOutbox } from '../../config/load-config.ts'
import type { Logger } from '../../core/spi/index.ts'
import { EXIT } from '../exit-codes.ts'
import { wait } from '../wait.ts'
import { type HealthServer, jsonAnswer, startHealth } from './health.ts'
import { metricsAnswer, type WorkerMetrics } from './metrics.ts'

export interface SingleParts {
  readonly config: LoadedConfig
  readonly logger: Logger
  readonly metrics: WorkerMetrics
  readonly signal: AbortSignal
  /** Whether SIGHUP is a wish to read the configuration again; a supervisor replaces its children then. */
  readonly heedsHangup: boolean
  /** Reads the configuration again and settles it; the outboxes are not started meanwhile. */
  readonly reload: () => Promise<LoadedConfig>
  /** `delivers` answers whether it still does, now and later. */
  readonly started: (health: HealthServer | null, delivers: () => Promise<boolean>) => void
}

/** How long the database may take to answer the question whether we are ready. */
const READY_TIMEOUT_MS = 2_000
const WATCH_INTERVAL_MS = 1_000
const START_AGAIN_MS = 1_000

const answersInTime = async (outboxes: readonly LoadedOutbox[]): Promise<boolean> => {
  const late = new Promise<false>((resolve) => setTimeout(() => resolve(false), READY_TIMEOUT_MS).unref())
  const all = Promise.all(outboxes.map(({ host }) => host.registered())).then(
    () => true,
    () => false,
  )
  return await Promise.race([all, late])
}

const stopAll = async (outboxes: readonly LoadedOutbox[]): Promise<boolean> => {
  const ended = await Promise.all(outboxes.map(({ outbox }) => outbox.stop()))
  return ended.every(({ clean }) => clean)
}

/** Calls take turns; what is asked for while one runs is one more. */
const inTurn = (step: () => Promise<void>): (() => Promise<void>) => {
  let last: Promise<void> = Promise.resolve()
  return () => {
    last = last.then(step)
    return last
  }
}

/** A time that no file has, for one that is being replaced at this moment. */
const changedAt = (file: string): number => {
  try {
    return statSync(file).mtimeMs
  } catch {
    return -1
  }
}

/** Only what holds settings and no code can be read again. What changed since this call is noticed. */
const watcher = (file: string | null): ((changed: () => void) => () => void) => {
  if (file === null || !isSettingsOnly(file)) return () => () => undefined
  let known = changedAt(file)
  return (changed) => {
    const timer = setInterval(() => {
      const now = changedAt(file)
      if (now === known || now < 0) return
      known = now
      changed()
    }, WATCH_INTERVAL_MS).unref()
    return () => clearInterval(timer)
  }
}

export const runSingle = async (parts: SingleParts): Promise<number> => {
  const { logger, signal } = parts
  if (signal.aborted) return EXIT.ok
  let { config } = parts
  let isReady = false
  const watch = watcher(config.file)
  const startAll = async (): Promise<void> => {
    for (const { outbox } of config.outboxes) await outbox.start()
    isReady = true
  }
  await startAll()
  const { healthPort, healthHost } = config.worker
  // A database that answers may still refuse whatever is written: after a failover to a copy that is only read, for one.
  const delivers = async (): Promise<boolean> =>
    isReady &&
    !signal.aborted &&
    config.outboxes.every(({ host }) => host.holdsLease()) &&
    (await answersInTime(config.outboxes))
  const pages = {
    '/health': () => jsonAnswer(true, { pid: process.pid, uptimeMs: Math.round(process.uptime() * 1_000) }),
    '/ready': async () =>
      jsonAnswer(await delivers(), {
        outboxes: config.outboxes.map(({ name, processors }) => ({ name, processors })),
      }),
    '/metrics': () => metricsAnswer(parts.metrics.text()),
  }
  const health = healthPort === null ? null : await startHealth(healthHost, healthPort, pages)
  const takeOver = async (): Promise<void> => {
    const before = config.outboxes
    try {
      config = await parts.reload()
    } catch (error) {
      // Some may have been settled anew before another one was refused.
      for (const { configure } of before) configure({})
      logger.log('error', 'the configuration was not taken over; the worker goes on with what it had', {
        error,
      })
      return
    }
    const kept = new Set(config.outboxes.map(({ outbox }) => outbox))
    for (const { outbox } of before) if (!kept.has(outbox)) await outbox.close()
  }
  const startAgain = async (): Promise<void> => {
    while (!signal.aborted) {
      try {
        await startAll()
        return
      } catch (error) {
        logger.log('error', 'the worker could not start again; it tries again shortly', { error })
        await wait(START_AGAIN_MS, signal)
      }
    }
  }
  const reload = inTurn(async () => {
    if (signal.aborted) return
    logger.log('info', 'the configuration is read again')
    isReady = false
    await stopAll(config.outboxes)
    await takeOver()
    await startAgain()
    if (!signal.aborted) logger.log('info', 'the worker delivers again')
  })
  const watched = watch(() => void reload())
  const onHangup = (): void => {
    if (parts.heedsHangup) void reload()
  }
  process.on('SIGHUP', onHangup)
  const processors = config.outboxes.flatMap((outbox) => outbox.processors)
  logger.log('info', 'the worker delivers', {
    processors,
    ...(health === null ? {} : { healthPort: health.port }),
  })
  parts.started(health, delivers)

  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
  watched()
  process.off('SIGHUP', onHangup)
  logger.log('info', 'the worker drains')
  const clean = await stopAll(config.outboxes)
  await health?.close()
  logger.log(
    clean ? 'info' : 'warn',
    clean ? 'the worker stopped' : 'the worker stopped before everything had ended',
  )
  return clean ? EXIT.ok : EXIT.failed
}
