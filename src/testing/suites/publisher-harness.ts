/**
 * What a publisher has to offer to be tested. The suite speaks to the broker only through these words, so that the same
 * cases run on all of them. What arrived is read with something else than the publisher.
 */
import type { Publisher } from '../../core/spi/index.ts'
import type { SuiteOptions } from './run-suite.ts'

export interface ReceivedMessage {
  readonly body: Uint8Array
  readonly contentType: string | null
  /** By which the place keeps order or finds a partition; null where it has nothing like it. */
  readonly key: string | null
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
}

export interface PublisherSettings {
  readonly format?: 'plain' | 'cloudevents' | 'cloudevents-binary'
}

/** An empty place of its own at the real broker, made anew for every test. */
export interface PublisherHarness {
  /** Where deliveries are sent: a topic, a routing key, a stream … */
  readonly topic: string
  /** A publisher for it. The suite closes it. */
  open(settings?: PublisherSettings): Publisher
  /** What lies there, in order, as soon as there are at least so many. */
  received(count: number): Promise<readonly ReceivedMessage[]>

  /** The place keeps what it got apart by key, and in order within it. */
  readonly keepsKey: boolean
  /** The name of a header as it arrives, where the carrier changes it. */
  headerName?(name: string): string

  /** Bytes of a payload that the broker refuses; absent where it takes all that an event can have. */
  readonly tooLarge?: number
  /** A place that does not exist, and is not made by sending there. */
  readonly unknownTopic?: string
  /** A publisher with credentials that the broker refuses. */
  openRefused?(): Publisher
  /** A publisher behind a connection that can be told to take everything and answer nothing. */
  openHanging?(): Promise<{ readonly publisher: Publisher; hang(): void; goOn(): void }>
  /** A publisher, and what of a message makes the broker close its connection: where it is sent, or its payload. */
  openPoisoned?(): Promise<{
    readonly publisher: Publisher
    readonly poison: { readonly topic?: string; readonly data?: string }
    /** The broker says which message it was before it closes, which may still get lost with the connection. */
    readonly mayBeNamed?: boolean
  }>
  /** Ends the broker without a word, and starts it again on the same data. */
  kill?(): Promise<void>
  start?(): Promise<void>
  dispose(): Promise<void>
}

export interface PublisherSuiteOptions extends SuiteOptions {
  create(): Promise<PublisherHarness>
}
