/**
 * `posthaste/publishers/file`: one line of JSON per event, into a file or to standard output. For audit logs, for
 * programs that read a pipe, and to look at what would be sent.
 */
import { type FileHandle, open } from 'node:fs/promises'
import type { OutgoingDelivery, Publisher, SendResult } from '../core/spi/index.ts'
import { checkOptions } from './shared/check-options.ts'
import { dataMember, type FormatOptions, messages } from './shared/message.ts'
import { closedError, SENT } from './shared/results.ts'

export interface FilePublisherOptions extends Pick<FormatOptions, 'source'> {
  /** Lines are appended to it; it is made when it is not there. */
  readonly path: string
  /** Default `plain`: an object with `headers`, `contentType` and `data`. */
  readonly format?: 'plain' | 'cloudevents'
  /** Each batch is on the disk before it counts as sent. Default true. */
  readonly sync?: boolean
}

export type StdoutPublisherOptions = Pick<FilePublisherOptions, 'format' | 'source'>

/** Line breaks can stand only between the tokens of JSON, where a space means the same. */
const asLine = (json: string): string => `${json.replaceAll(/[\r\n]+/g, ' ')}\n`

const lineOf = ({ format = 'plain', source }: StdoutPublisherOptions): ((d: OutgoingDelivery) => string) => {
  const messageOf = messages({ format, ...(source === undefined ? {} : { source }) }, '')
  return (delivery) => {
    const { body, contentType, headers } = messageOf(delivery)
    if (format === 'cloudevents') return asLine(body as string)
    const fields = JSON.stringify({
      topic: delivery.topic,
      contentType,
      headers: Object.fromEntries(headers),
    })
    return asLine(`${fields.slice(0, -1)},${dataMember(delivery.event)}}`)
  }
}

abstract class LinePublisher implements Publisher {
  readonly maxBatch = 1_000
  readonly orderedPrefix = true
  readonly #lineOf: (delivery: OutgoingDelivery) => string
  readonly #name: string
  #last: Promise<unknown> = Promise.resolve()
  #closed = false

  constructor(name: string, options: StdoutPublisherOptions) {
    this.#name = name
    this.#lineOf = lineOf(options)
  }

  async send(deliveries: readonly OutgoingDelivery[]): Promise<readonly SendResult[]> {
    if (this.#closed) throw closedError(this.#name)
    const text = deliveries.map(this.#lineOf).join('')
    // One batch after another: lines of two must not mix.
    const written = this.#last.then(() => this.write(text))
    this.#last = written.catch(() => undefined)
    await written
    return deliveries.map(() => SENT)
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#last
    await this.end()
  }

  protected abstract write(text: string): Promise<void>
  protected abstract end(): Promise<void>
}

class FilePublisher extends LinePublisher {
  readonly #path: string
  readonly #sync: boolean
  #file: FileHandle | null = null

  constructor(options: FilePublisherOptions) {
    super('the file publisher', options)
    this.#path = options.path
    this.#sync = options.sync ?? true
  }

  protected async write(text: string): Promise<void> {
    this.#file ??= await open(this.#path, 'a')
    const before = (await this.#file.stat()).size
    try {
      await this.#file.appendFile(text)
      if (this.#sync) await this.#file.datasync()
    } catch (error) {
      // A full disk leaves half a line, to which the next one would be glued.
      await this.#file.truncate(before).catch(() => undefined)
      throw error
    }
  }

  protected async end(): Promise<void> {
    await this.#file?.close()
    this.#file = null
  }
}

class StdoutPublisher extends LinePublisher {
  constructor(options: StdoutPublisherOptions) {
    super('the publisher to standard output', options)
  }

  protected write(text: string): Promise<void> {
    return new Promise((resolve, reject) => {
      process.stdout.write(text, (error) => (error ? reject(error) : resolve()))
    })
  }

  protected async end(): Promise<void> {}
}

export const filePublisher = (options: FilePublisherOptions): Publisher => {
  checkOptions('filePublisher', options, {
    path: { kind: 'text' },
    format: { kind: 'choice', of: ['plain', 'cloudevents'], optional: true },
    source: { kind: 'text', optional: true },
    sync: { kind: 'flag', optional: true },
  })
  return new FilePublisher(options)
}

export const stdoutPublisher = (options: StdoutPublisherOptions = {}): Publisher => {
  checkOptions('stdoutPublisher', options, {
    format: { kind: 'choice', of: ['plain', 'cloudevents'], optional: true },
    source: { kind: 'text', optional: true },
  })
  return new StdoutPublisher(options)
}
