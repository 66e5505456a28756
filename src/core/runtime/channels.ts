/**
 * What happens, for whoever subscribes to `node:diagnostics_channel`. A message is put together only when somebody
 * listens, once a batch, and has no payloads, headers or keys. Names and fields are in docs/observability.md.
 */
import { channel } from 'node:diagnostics_channel'
import type { DeliverySource } from '../model/delivery.ts'

export interface PublishMessage {
  readonly events: readonly { readonly id: string; readonly type: string }[]
}

export interface AttemptMessage {
  readonly destination: string
  readonly durationMs: number
  readonly deliveries: readonly {
    readonly id: string
    readonly eventId: string
    readonly type: string
    readonly run: number
    readonly attempt: number
    readonly path: DeliverySource
    readonly verdict: 'done' | 'retry' | 'dead' | 'outage'
    /** Of the error; its text is in the history of attempts. */
    readonly code: string | null
  }[]
}

export interface SettleMessage {
  readonly count: number
  readonly lost: number
  readonly durationMs: number
}

export interface ReadMessage {
  readonly destination: string
  readonly rows: number
  readonly durationMs: number
}

export interface LanesMessage {
  readonly destination: string
  readonly worker: string
  readonly change: 'gained' | 'takenOver' | 'givenUp' | 'lost'
  readonly lanes: readonly number[]
}

export interface BreakerMessage {
  readonly destination: string
  readonly state: 'closed' | 'open' | 'halfOpen'
}

interface Messages {
  readonly publish: PublishMessage
  readonly attempt: AttemptMessage
  readonly settle: SettleMessage
  readonly read: ReadMessage
  readonly lanes: LanesMessage
  readonly breaker: BreakerMessage
}

export type ChannelName = keyof Messages

export const CHANNELS = Object.freeze({
  publish: channel('posthaste:publish'),
  attempt: channel('posthaste:attempt'),
  settle: channel('posthaste:settle'),
  read: channel('posthaste:read'),
  lanes: channel('posthaste:lanes'),
  breaker: channel('posthaste:breaker'),
} satisfies Record<ChannelName, unknown>)

/** Whoever calls it has looked at `hasSubscribers` first, so that nothing is put together for nobody. */
export const tell = <N extends ChannelName>(name: N, message: Messages[N]): void => {
  CHANNELS[name].publish(message)
}
