/**
 * `posthaste/publishers/file`: one line of JSON per event, into a file or to standard output. For audit logs, for
 * programs that read a pipe, and to look at what would be sent.
 */
import { type FileHandle, open, stat } from 'node:fs/promises'
import { OutageError } from '../core/errors.ts'
import type { OutgoingDelivery, Publisher, SendContext, SendResult } from '../core/spi/index.ts'
import { checkOptions } from './shared/check-options.ts'
import { dataMember, type FormatOptions, messages } from './shared/message.ts'
import { closedError, makeEach, SENT } from './shared/results.ts'
import { within } from './shared/within.ts'

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

const LINE_FEED = 0x0a

const nothing = (): void => undefined

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

  async send(
    deliveries: readonly OutgoingDelivery[],
    { signal }: SendContext,
  ): Promise<readonly SendResult[]> {
    if (this.#closed) throw closedError(this.#name)
    const { made, around } = makeEach(deliveries, this.#lineOf)
    // One batch after another: lines of two must not mix.
    const written = this.#last.then(async () => {
      signal.throwIfAborted()
      await this.write(made.join(''))
    })
    this.#last = written.catch(() => undefined)
    try {
      await within(written, signal)
    } catch (cause) {
      // A full disk, a folder that is not there: nothing that an event could help.
      const why = cause instanceof Error ? cause.message : String(cause)
      throw new OutageError(`${this.#name} could not write: ${why}`, { cause })
    }
    return around(made.map(() => SENT))
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
    const { file, size, isTorn } = await this.#current()
    const bytes = Buffer.from(isTorn ? `\n${text}` : text)
    let written = 0
    try {
      while (written < bytes.length) written += (await file.write(bytes, written)).bytesWritten
      if (this.#sync) await file.datasync()
    } catch (error) {
      await this.#takeBack(file, size, written)
      throw error
    }
  }

  protected async end(): Promise<void> {
    const file = this.#file
    this.#file = null
    await file?.close()
  }

  /** The file that has the name now: somebody may have moved or deleted the one that we have open. */
  async #current(): Promise<{ file: FileHandle; size: number; isTorn: boolean }> {
    const there = this.#file === null ? null : await stat(this.#path).catch(() => null)
    const ours = await this.#file?.stat()
    if (this.#file !== null && ours !== undefined && there?.ino === ours.ino && there.dev === ours.dev)
      return { file: this.#file, size: ours.size, isTorn: false }
    await this.end()
    const file = await open(this.#path, 'a')
    this.#file = file
    const { size } = await file.stat()
    return { file, size, isTorn: await this.#isTorn(size) }
  }

  /** Whether it ends in the middle of a line, to which the next one would be glued: whoever wrote it did not get further. */
  async #isTorn(size: number): Promise<boolean> {
    // Pipes and devices have none.
    if (size === 0) return false
    const reading = await open(this.#path, 'r')
    try {
      const { buffer } = await reading.read(Buffer.alloc(1), 0, 1, size - 1)
      return buffer[0] !== LINE_FEED
    } finally {
      await reading.close()
    }
  }

  /** A full disk leaves half a line. Where somebody else has written behind it, it stays, and the next one begins a line. */
  async #takeBack(file: FileHandle, before: number, written: number): Promise<void> {
    try {
      if ((await file.stat()).size === before + written) await file.truncate(before)
      await this.end()
    } catch {
      this.#file = null
    }
  }
}

class StdoutPublisher extends LinePublisher {
  constructor(options: StdoutPublisherOptions) {
    super('the publisher to standard output', options)
  }

  protected write(text: string): Promise<void> {
    // Whoever read it may be gone: that is told to the callback, and once more to everybody, which would end the process.
    if (!process.stdout.listeners('error').includes(nothing)) process.stdout.on('error', nothing)
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
