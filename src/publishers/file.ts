/**
 * `posthaste/publishers/file`: one line of JSON per event, into a file or to standard output. For audit logs, for
 * programs that read a pipe, and to look at what would be sent.
 */
import { constants, openSync, type Stats } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { Socket } from 'node:net'
import type { Writable } from 'node:stream'
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

const writeTo = (stream: Writable, text: string): Promise<void> => {
  // Whoever read it may be gone: that is told to the callback, and once more to everybody, which would end the process.
  if (!stream.listeners('error').includes(nothing)) stream.on('error', nothing)
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => (error ? reject(error) : resolve()))
  })
}

type Identity = Pick<Stats, 'ino' | 'dev'>

const isSame = (one: Identity, other: Identity): boolean => one.ino === other.ino && one.dev === other.dev

abstract class LinePublisher implements Publisher {
  readonly maxBatch = 1_000
  readonly orderedPrefix = true
  readonly #lineOf: (delivery: OutgoingDelivery) => string
  readonly #name: string
  readonly #underWay = new Set<Promise<void>>()
  /** Ends, well or not, with the write that is under way. */
  #writing: Promise<unknown> | null = null
  /** Nobody waits for that write any more. */
  #isGivenUp = false
  /** Those that wait for the end of it, to be next. */
  readonly #waiting = new Set<() => void>()
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
    const awaited = this.#writeInTurn(made, signal)
    this.#underWay.add(awaited)
    try {
      await awaited
    } catch (cause) {
      // A full disk, a folder that is not there: nothing that an event could help.
      const why = cause instanceof Error ? cause.message : String(cause)
      throw new OutageError(`${this.#name} could not write: ${why}`, { cause })
    } finally {
      this.#underWay.delete(awaited)
    }
    return around(made.map(() => SENT))
  }

  async close(): Promise<void> {
    this.#closed = true
    // Each for as long as its signal allows.
    await Promise.allSettled(this.#underWay)
    if (this.#writing === null) return await this.end()
    this.cutOff()
    // What nobody waits for any more may never end.
    this.#writing.then(() => this.end()).catch(nothing)
  }

  /** One batch after another: lines of two must not mix. */
  async #writeInTurn(lines: readonly string[], signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    while (this.#writing !== null) await this.#untilWritten(signal)
    const writing = this.write(lines.join('')).finally(() => {
      this.#writing = null
      for (const wake of this.#waiting) wake()
    })
    this.#writing = writing.catch(nothing)
    this.#isGivenUp = false
    try {
      await within(writing, signal)
    } catch (error) {
      this.#isGivenUp = true
      throw error
    }
  }

  /** Nothing is kept of who is given up meanwhile, though the write may never end. */
  async #untilWritten(signal: AbortSignal): Promise<void> {
    let wake = nothing
    const ended = new Promise<void>((resolve) => {
      wake = resolve
    })
    this.#waiting.add(wake)
    try {
      if (this.#isGivenUp) await within(this.leave(), signal)
      await within(ended, signal)
    } finally {
      this.#waiting.delete(wake)
    }
  }

  protected abstract write(text: string): Promise<void>
  /** Ends a write that is stuck, where that can be done. */
  protected abstract cutOff(): void
  /** The same, where what is to be written now is for another place. */
  protected abstract leave(): Promise<void>
  protected abstract end(): Promise<void>
}

class FilePublisher extends LinePublisher {
  readonly #path: string
  readonly #sync: boolean
  #file: FileHandle | null = null
  #pipe: { readonly socket: Socket; readonly at: Identity } | null = null

  constructor(options: FilePublisherOptions) {
    super('the file publisher', options)
    this.#path = options.path
    this.#sync = options.sync ?? true
  }

  protected async write(text: string): Promise<void> {
    const there = await stat(this.#path).catch(() => null)
    if (there?.isFIFO()) return await writeTo(await this.#currentPipe(there), text)
    const { file, size, isTorn } = await this.#current(there)
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
    const [file, pipe] = [this.#file, this.#pipe]
    this.#file = null
    this.#pipe = null
    pipe?.socket.destroy()
    await file?.close()
  }

  /** A file gets what is written to it when it can; the reader of a pipe may never read on. */
  protected cutOff(): void {
    this.#pipe?.socket.destroy()
  }

  /** The reader of a pipe that has lost its name is not waited for. */
  protected async leave(): Promise<void> {
    const there = await stat(this.#path).catch(() => null)
    if (this.#pipe !== null && (there === null || !isSame(there, this.#pipe.at))) this.cutOff()
  }

  /** A socket, because a pipe that nobody reads would keep one of Node's threads, and with that the process from its end. */
  async #currentPipe(at: Identity): Promise<Socket> {
    if (this.#pipe !== null && isSame(this.#pipe.at, at) && !this.#pipe.socket.destroyed)
      return this.#pipe.socket
    await this.end()
    // Without a reader this fails (ENXIO) instead of waiting for one.
    const fd = openSync(this.#path, constants.O_WRONLY | constants.O_NONBLOCK)
    const socket = new Socket({ fd, readable: false, writable: true })
    // Half a line of somebody who was cut off may be in it.
    socket.write('\n')
    this.#pipe = { socket, at }
    return socket
  }

  /** The file that has the name now: somebody may have moved or deleted the one that we have open. */
  async #current(there: Stats | null): Promise<{ file: FileHandle; size: number; isTorn: boolean }> {
    const ours = await this.#file?.stat()
    if (this.#file !== null && ours !== undefined && there !== null && isSame(there, ours))
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
    return writeTo(process.stdout, text)
  }

  /** It is not ours alone. */
  protected cutOff(): void {}

  protected async leave(): Promise<void> {}

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
