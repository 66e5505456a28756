/** Whether an outbox does its work, in the words of Nest's health checks, of which nothing has to be installed. */
import { refuseUnknown } from '../core/model/index.ts'
import type { Outbox } from '../core/outbox-api.ts'

export interface OutboxHealthOptions {
  /** Longest wait for the database's answer, in ms. Default 1,000. */
  readonly timeoutMs?: number
  /** Down when something due has waited longer than this, in ms. Default: never, and nothing is counted. */
  readonly maxLagMs?: number
}

/** As an object, so that the compiler misses none when an option is added. */
const OPTION_NAMES: ReadonlySet<string> = new Set(
  Object.keys({ timeoutMs: true, maxLagMs: true } satisfies Record<keyof OutboxHealthOptions, true>),
)

export interface OutboxHealthReport {
  readonly status: 'up' | 'down'
  /** Whether this process delivers. */
  readonly started: boolean
  /** The longest that something due has waited; only with `maxLagMs`. */
  readonly lagMs?: number
  /** Why it is down. */
  readonly message?: string
}

/** The shape that `HealthCheckService` of @nestjs/terminus takes from an indicator. */
export type OutboxHealthResult<Key extends string = string> = Record<Key, OutboxHealthReport>

const answerInTime = async <T>(timeoutMs: number, answer: Promise<T>): Promise<T> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer of the database within ${timeoutMs} ms`)), timeoutMs)
  })
  try {
    return await Promise.race([answer, late])
  } finally {
    clearTimeout(timer)
  }
}

export class OutboxHealth {
  readonly #outbox: Pick<Outbox<never>, 'isStarted' | 'schema' | 'inspect'>
  readonly #delivers: boolean

  constructor(outbox: Pick<Outbox<never>, 'isStarted' | 'schema' | 'inspect'>, delivers: boolean) {
    this.#outbox = outbox
    this.#delivers = delivers
  }

  /** An indicator: `health.check([() => this.outbox.check('outbox')])`. Never throws. */
  async check<Key extends string = 'outbox'>(
    key: Key = 'outbox' as Key,
    options: OutboxHealthOptions = {},
  ): Promise<OutboxHealthResult<Key>> {
    return { [key]: await this.report(options) } as OutboxHealthResult<Key>
  }

  /** The same without a name around it. */
  async report(options: OutboxHealthOptions = {}): Promise<OutboxHealthReport> {
    const started = this.#outbox.isStarted
    try {
      refuseUnknown('OutboxHealth', options, OPTION_NAMES)
      const lagMs = await answerInTime(options.timeoutMs ?? 1_000, this.#ask(options))
      const report = { started, ...(lagMs === null ? {} : { lagMs }) }
      if (this.#delivers && !started) return { status: 'down', ...report, message: 'it is not started' }
      if (lagMs === null || lagMs <= (options.maxLagMs ?? 0)) return { status: 'up', ...report }
      return { status: 'down', ...report, message: `something due has waited ${Math.round(lagMs)} ms` }
    } catch (error) {
      return { status: 'down', started, message: error instanceof Error ? error.message : String(error) }
    }
  }

  /** The lag, if that is asked for. */
  async #ask({ maxLagMs }: OutboxHealthOptions): Promise<number | null> {
    const { current, latest } = await this.#outbox.schema.status()
    if (current < latest)
      throw new Error(`its tables are at version ${current}, this release needs ${latest}`)
    if (maxLagMs === undefined) return null
    const counts = await this.#outbox.inspect.counts()
    return Math.max(0, ...counts.map(({ oldestLagMs }) => oldestLagMs ?? 0))
  }
}
