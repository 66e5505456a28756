/**
 * `posthaste/publishers/webhook`: an HTTP POST per event, signed as Standard Webhooks describes it.
 *
 * The address may come from a customer, so it is checked before anything is sent (addresses.ts). One endpoint for the whole
 * destination is treated like any broker: when it cannot be reached, that is an outage. Endpoints that depend on the
 * event have breakers of their own (endpoints.ts), so that one of them does not hold up the others.
 */
import { setMaxListeners } from 'node:events'
import {
  ERROR_CODES,
  InvalidOptionError,
  OutageError,
  PermanentError,
  RetryAfter,
} from '../../core/errors.ts'
import type { EventRecord } from '../../core/model/index.ts'
import type { OutgoingDelivery, Publisher, SendContext } from '../../core/spi/index.ts'
import { checkOptions } from '../shared/check-options.ts'
import { type FormatOptions, messages } from '../shared/message.ts'
import { closedError, sendEach } from '../shared/results.ts'
import { within } from '../shared/within.ts'
import { blockListOf, type Guard, type Lookup, lookupAll, readUrl, safeAddress } from './addresses.ts'
import { Endpoints } from './endpoints.ts'
import { checkEndpointHeaders, headersOf } from './headers.ts'
import { type Answer, Poster } from './request.ts'
import { keyOf, signatureOf } from './signature.ts'

export interface WebhookEndpoint {
  /** `https://…`; no user or password in it. */
  readonly url: string
  /** `whsec_…`, one or several: with two, receivers can change from the old to the new one. */
  readonly secret: string | readonly string[]
  /** Sent with every request, such as `authorization`. */
  readonly headers?: Readonly<Record<string, string>>
}

export interface WebhookPublisherOptions extends FormatOptions {
  /** Where to send; or a function of the event that knows. `null` from it: nobody wants it, and it counts as sent. */
  readonly endpoint:
    | WebhookEndpoint
    | ((event: EventRecord) => WebhookEndpoint | null | Promise<WebhookEndpoint | null>)
  /** Requests to one endpoint at once. Default 4, 1 to 100. */
  readonly concurrency?: number
  /** From the first byte to the end of the answer, in ms. Default 15,000; 1 to 300,000. */
  readonly timeoutMs?: number
  /** Of an answer so much is read, in bytes. Default 16,384; 1 to 1,048,576. */
  readonly maxResponseBytes?: number
  /** Requests in a row to one endpoint without an answer after which it is left alone. Default 5, 1 to 1,000. */
  readonly breakerThreshold?: number
  /** For how long at first, in ms. Default 5,000; 1 to 3,600,000. */
  readonly breakerOpenMs?: number
  /** And at most, in ms. Default 300,000; 1 to 86,400,000. */
  readonly breakerMaxOpenMs?: number
  /** Also `http://`. Default false. */
  readonly allowHttp?: boolean
  /** Networks that may be reached although they are not public: `['10.1.0.0/16']`. Default none. */
  readonly allowNetworks?: readonly string[]
  /** Told once when an endpoint answers 410 Gone; nothing is sent there any more. If it fails, it is told again. */
  readonly onGone?: (endpoint: WebhookEndpoint, event: EventRecord) => unknown
  /** Finds the addresses of a name. Default the system's resolver. */
  readonly lookup?: Lookup
}

const DEFAULT_TIMEOUT_MS = 15_000
const LONGEST_RETRY_AFTER_MS = 24 * 3_600_000
const SHOWN_CHARS = 500

/** Seconds, or a date. One that has passed asks for nothing: all attempts would be spent in a moment. */
const retryAfterMs = (value: string | undefined, now: number): number | null => {
  if (value === undefined) return null
  const ms = /^\s*\d+\s*$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - now
  return ms > 0 ? Math.min(LONGEST_RETRY_AFTER_MS, ms) : null
}

const saying = ({ status, text }: Answer): string =>
  `the endpoint answered ${status}${text === '' ? '' : `: ${text.slice(0, SHOWN_CHARS)}`}`

/** 5xx without words of their own: somebody on the way, not the application, answered. */
const UNREACHABLE_STATUS = new Set([502, 503, 504])

/** Of the core, or of a signal of Node's. Whoever else ends a send has reasons of their own, such as a shutdown. */
const isDeadline = (reason: unknown): boolean => {
  const { code, name } = (reason ?? {}) as { readonly code?: unknown; readonly name?: unknown }
  return code === ERROR_CODES.deadline || name === 'TimeoutError'
}

/** It may have arrived, as whatever had no answer. */
const brokenOff = (cause: unknown): RetryAfter =>
  new RetryAfter(0, {
    message: 'the request was broken off from here before the endpoint had its time to answer',
    counted: false,
    cause,
  })

class WebhookPublisher implements Publisher {
  readonly maxBatch = 100
  readonly #options: WebhookPublisherOptions
  readonly #guard: Guard
  readonly #endpoints: Endpoints
  readonly #poster: Poster
  readonly #messageOf: ReturnType<typeof messages>
  readonly #underWay = new Set<Promise<unknown>>()
  #closed = false

  constructor(options: WebhookPublisherOptions) {
    const { concurrency = 4, lookup = lookupAll, allowNetworks = [], allowHttp = false } = options
    this.#options = options
    this.#guard = { lookup, allowed: blockListOf(allowNetworks), allowHttp }
    this.#poster = new Poster(concurrency)
    this.#endpoints = new Endpoints(
      {
        concurrency,
        breakerThreshold: options.breakerThreshold ?? 5,
        breakerOpenMs: options.breakerOpenMs ?? 5_000,
        breakerMaxOpenMs: options.breakerMaxOpenMs ?? 300_000,
      },
      () => performance.now(),
    )
    this.#messageOf = messages(options, 'ce-')
    // A mistake in a fixed endpoint is said at once, not with the first event.
    if (typeof options.endpoint !== 'function') {
      checkFixedUrl(options.endpoint.url, this.#guard)
      keysOf(options.endpoint)
      checkEndpointHeaders(options.endpoint.headers ?? {})
    }
  }

  async send(deliveries: readonly OutgoingDelivery[], context: SendContext) {
    if (this.#closed) throw closedError('the webhook publisher')
    // Each delivery listens to it, and Node takes more than ten listeners for a leak.
    setMaxListeners(0, context.signal)
    const sending = sendEach(deliveries, (delivery) => this.#sendOne(delivery, context))
    this.#underWay.add(sending)
    try {
      return await sending
    } finally {
      this.#underWay.delete(sending)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.allSettled(this.#underWay)
    this.#poster.close()
  }

  async #sendOne(delivery: OutgoingDelivery, context: SendContext): Promise<void> {
    const { endpoint: given } = this.#options
    const endpoint =
      typeof given === 'function'
        ? await within(Promise.resolve(given(delivery.event)), context.signal)
        : given
    if (endpoint === null) return
    const state = this.#endpoints.of(endpoint.url)
    const readyAt = performance.now()
    await this.#endpoints.run(state, context.signal, async () => {
      // Also for those that waited for their turn while the endpoint said so.
      if (state.gone) throw gone(endpoint.url)
      let answer: Answer
      const requestAt = performance.now()
      try {
        answer = await this.#post(endpoint, delivery, context)
      } catch (error) {
        // Nothing was sent: the event cannot be, or the endpoint was set up wrongly.
        if (error instanceof PermanentError || error instanceof InvalidOptionError) throw error
        if (this.#isOurDoing(context.signal, readyAt, requestAt)) throw brokenOff(error)
        state.unreachable(performance.now())
        throw this.#unreachable(error)
      }
      if (UNREACHABLE_STATUS.has(answer.status)) state.unreachable(performance.now())
      else state.answered()
      if (answer.status === 410) {
        const isNews = !state.gone
        state.gone = true
        if (isNews) await this.#tellGone(endpoint, delivery.event, state, context)
        throw gone(endpoint.url)
      }
      this.#judge(answer)
    })
  }

  async #tellGone(
    endpoint: WebhookEndpoint,
    event: EventRecord,
    state: { gone: boolean },
    { signal }: SendContext,
  ): Promise<void> {
    try {
      await within(Promise.resolve(this.#options.onGone?.(endpoint, event)), signal)
    } catch (error) {
      state.gone = false
      throw error
    }
  }

  async #post(
    endpoint: WebhookEndpoint,
    delivery: OutgoingDelivery,
    { signal }: SendContext,
  ): Promise<Answer> {
    const { timeoutMs = DEFAULT_TIMEOUT_MS, maxResponseBytes = 16_384 } = this.#options
    const url = readUrl(endpoint.url, this.#guard)
    if (url instanceof PermanentError) throw url
    const keys = keysOf(endpoint)
    const until = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
    // Whoever answers for a name may take their time, too.
    const address = await within(safeAddress(url, this.#guard), until)
    const message = this.#messageOf(delivery)
    const headers = headersOf(message, endpoint.headers ?? {})
    const [id, timestamp] = [delivery.deduplicationId, Math.floor(Date.now() / 1_000)]
    headers['webhook-id'] = id
    headers['webhook-timestamp'] = String(timestamp)
    headers['webhook-signature'] = signatureOf(keys, id, timestamp, message.body)
    return await this.#poster.post({
      url,
      address,
      headers,
      body: message.body,
      signal: until,
      maxResponseBytes,
    })
  }

  /**
   * We gave up before the endpoint could be blamed: because of a shutdown, or because the time of the batch was over and
   * those before it had had most of it. Where a request had at least half of the time since it was ready no other would
   * have had much more, so it counts: an endpoint that never answers must be found out also where the destination waits less than we would.
   */
  #isOurDoing(signal: AbortSignal, readyAt: number, requestAt: number): boolean {
    if (!signal.aborted) return false
    const now = performance.now()
    const hadMs = now - requestAt
    if (hadMs >= (this.#options.timeoutMs ?? DEFAULT_TIMEOUT_MS)) return false
    return !isDeadline(signal.reason) || hadMs < (now - readyAt) / 2
  }

  /** The only endpoint is the place; one of many is part of what is wrong with the event. */
  #unreachable(error: unknown): unknown {
    if (typeof this.#options.endpoint === 'function')
      return new RetryableWebhookError('the endpoint could not be reached', { cause: error })
    return new OutageError('the endpoint could not be reached', { cause: error })
  }

  #judge(answer: Answer): void {
    const { status, retryAfter } = answer
    if (status >= 200 && status < 300) return
    if (status === 413) throw new PermanentError(saying(answer), { status })
    const isOutage = UNREACHABLE_STATUS.has(status) && typeof this.#options.endpoint !== 'function'
    const delayMs = retryAfterMs(retryAfter, Date.now())
    if (delayMs !== null)
      throw new RetryAfter(delayMs, { message: saying(answer), status, counted: !isOutage })
    if (status >= 300 && status < 400)
      throw new RetryableWebhookError(`${saying(answer)}; redirects are not followed`)
    if (isOutage) throw new OutageError(saying(answer), { status })
    throw new RetryableWebhookError(saying(answer))
  }
}

/** Spends an attempt. Without the codes of sockets, which would be taken for an outage of the whole destination. */
class RetryableWebhookError extends Error {
  constructor(message: string, options?: { readonly cause: unknown }) {
    const why = options?.cause instanceof Error ? `: ${options.cause.message}` : ''
    super(`${message}${why}`)
    this.name = 'WebhookError'
  }
}

const checkFixedUrl = (value: string, guard: Guard): void => {
  const cause = readUrl(value, guard)
  if (cause instanceof PermanentError)
    throw new InvalidOptionError(`endpoint.url cannot be used: ${cause.message}`, {
      option: 'endpoint.url',
      value,
      cause,
    })
}

const keysOf = ({ secret }: WebhookEndpoint): readonly Buffer[] =>
  Array.isArray(secret) && secret.length > 0 ? secret.map(keyOf) : [keyOf(secret)]

const gone = (url: string): PermanentError =>
  new PermanentError(`the endpoint ${new URL(url).host} is gone (410) and gets nothing any more`)

export const webhookPublisher = (options: WebhookPublisherOptions): Publisher => {
  checkOptions('webhookPublisher', options, {
    endpoint: { kind: 'anything' },
    format: { kind: 'choice', of: ['plain', 'cloudevents', 'cloudevents-binary'], optional: true },
    source: { kind: 'text', optional: true },
    concurrency: { kind: 'number', from: 1, to: 100, optional: true },
    timeoutMs: { kind: 'number', from: 1, to: 300_000, optional: true },
    maxResponseBytes: { kind: 'number', from: 1, to: 1_048_576, optional: true },
    breakerThreshold: { kind: 'number', from: 1, to: 1_000, optional: true },
    breakerOpenMs: { kind: 'number', from: 1, to: 3_600_000, optional: true },
    breakerMaxOpenMs: { kind: 'number', from: 1, to: 86_400_000, optional: true },
    allowHttp: { kind: 'flag', optional: true },
    allowNetworks: { kind: 'anything', optional: true },
    onGone: { kind: 'function', optional: true },
    lookup: { kind: 'function', optional: true },
  })
  return new WebhookPublisher(options)
}
