/** One run of a command: its flags, where it writes, the outboxes it works on, and how it is interrupted. */
import { hostname, userInfo } from 'node:os'
import { type LoadedConfig, type LoadedOutbox, type LoadOptions, loadConfig } from '../config/load-config.ts'
import type { Said } from '../config/settings.ts'
import type { Act } from '../core/bulk.ts'
import type { Answers } from './answer.ts'
import { type Parsed, UsageError, type Values } from './parse.ts'
import { type Column, type Paint, Progress, painter, tableLines, wantsColour } from './terminal.ts'

export interface Streams {
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly answers: Answers
}

export class Session {
  readonly values: Values
  readonly operands: readonly string[]
  readonly isJson: boolean
  readonly streams: Streams
  readonly paint: Paint
  readonly #command: string
  readonly #opened: LoadedOutbox[] = []
  #loaded: Promise<LoadedConfig> | null = null
  #interrupt: AbortController | null = null
  #isAsked = false
  #isUnread = false

  constructor({ command, values, operands }: Parsed, streams: Streams) {
    this.values = values
    this.operands = operands
    this.streams = streams
    this.isJson = values.json === true
    this.#command = command.name
    this.paint = painter(wantsColour(streams.stdout, streams.environment, values['no-color'] === true))
  }

  // ------------------------------------------------------------------------------------------ flags

  text(flag: string): string | undefined {
    const value = this.values[flag]
    return typeof value === 'string' ? value : undefined
  }

  isOn(flag: string): boolean {
    return this.values[flag] === true
  }

  list(flag: string): readonly string[] {
    const value = this.values[flag]
    return Array.isArray(value) ? value : []
  }

  /** A refusal that ends with where the help is. */
  refuse(message: string): never {
    throw new UsageError(message, this.#command)
  }

  whole(flag: string, fallback: number, [low, high]: readonly [number, number]): number {
    const text = this.text(flag)
    if (text === undefined) return fallback
    const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN
    if (value >= low && value <= high) return value
    return this.refuse(`--${flag} must be a whole number from ${low} to ${high}, not "${text}"`)
  }

  /** Who acts, and why: for the audit trail. */
  act(): Act {
    const reason = this.text('reason')
    return { actor: this.text('actor') ?? whoami(), ...(reason === undefined ? {} : { reason }) }
  }

  // ----------------------------------------------------------------------------------------- output

  /** For people; silent with --json. */
  say(line = ''): void {
    if (!this.isJson) this.streams.stdout.write(`${line}\n`)
  }

  /** Beside the result, on standard error. */
  note(line: string): void {
    this.streams.stderr.write(`${line}\n`)
  }

  table<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): void {
    for (const line of tableLines(rows, columns, this.paint, this.width)) this.say(line)
  }

  get width(): number | null {
    return this.streams.stdout.isTTY === true ? this.streams.stdout.columns || 80 : null
  }

  progress(label: string): Progress {
    return new Progress(this.streams.stderr, label, this.isJson)
  }

  // --------------------------------------------------------------------------------------- outboxes

  /** For what makes tables: the file of a SQLite database is made too. Whoever looks must leave nothing behind. */
  makesFiles = false

  async load(options: LoadOptions = {}, said: readonly Said[] = []): Promise<LoadedConfig> {
    for (const text of this.list('set'))
      if (!/^[^=]+=/.test(text)) this.refuse(`--set takes KEY=VALUE, such as pollInterval=5s; not "${text}"`)
    // Looking must not make tables; `migrate` and the worker do.
    const under = options.under ?? (() => ({ migrate: false }))
    const config = await loadConfig({
      environment: this.streams.environment,
      set: this.list('set'),
      ...this.#place(),
      said,
      ...options,
      under: (given, loaded) => ({ ...under(given, loaded), mustExist: !this.makesFiles }),
    })
    this.#opened.push(...config.outboxes)
    return config
  }

  #place(): LoadOptions {
    for (const flag of ['schema', 'prefix', 'table', 'period'])
      if (this.text(flag) !== undefined && this.text('url') === undefined)
        this.refuse(`--${flag} needs --url: a configuration says itself where its tables are`)
    const isPostgres = /^postgres/i.test(this.text('url') ?? '')
    if (this.text('schema') !== undefined && !isPostgres)
      this.refuse('--schema is for PostgreSQL; elsewhere --prefix says how the names of the tables begin')
    const given = {
      configFile: this.text('config'),
      outbox: this.text('outbox'),
      url: this.text('url'),
      schema: this.text('schema'),
      prefix: this.text('prefix'),
      // Only `partitions` has it, and needs tables that have some.
      ...(this.#command === 'partitions' && this.text('url') !== undefined
        ? { layout: 'partitioned', period: this.text('period') }
        : {}),
    }
    const table = this.text('table')
    // PostgreSQL keeps the tables in a schema of that name, the others begin their names with it.
    const byTable = table === undefined ? {} : isPostgres ? { schema: table } : { prefix: `${table}_` }
    return Object.fromEntries(
      Object.entries({ ...given, ...byTable }).filter(([, value]) => value !== undefined),
    ) as LoadOptions
  }

  /** All that are meant; loaded once. */
  async outboxes(): Promise<readonly LoadedOutbox[]> {
    this.#loaded ??= this.load()
    return (await this.#loaded).outboxes
  }

  /** For what acts on one of them. */
  async outbox(): Promise<LoadedOutbox> {
    const all = await this.outboxes()
    const [first, second] = all
    if (first !== undefined && second === undefined) return first
    return this.refuse(`name one of the outboxes with --outbox: ${all.map(({ name }) => name).join(', ')}`)
  }

  /** Those that know the thing with this id, and what they know of it. */
  async find<T>(
    look: (outbox: LoadedOutbox) => Promise<T | null>,
  ): Promise<readonly [LoadedOutbox, T] | null> {
    for (const outbox of await this.outboxes()) {
      const found = await look(outbox)
      if (found !== null) return [outbox, found]
    }
    return null
  }

  // -------------------------------------------------------------------------------------- interrupts

  /** From here on Ctrl-C is the command's to notice: it ends where nothing is half done. */
  get signal(): AbortSignal {
    this.#interrupt ??= new AbortController()
    return this.#interrupt.signal
  }

  /** Signals that somebody else will answer for us, as the supervisor does for its children. */
  ignored: readonly NodeJS.Signals[] = []

  /** Whoever asks again need not be in a hurry, as where several say the same. */
  isPatient = false

  get isInterrupted(): boolean {
    return this.#interrupt?.signal.aborted === true
  }

  /** Stopped because nobody reads what it writes any more; nobody asked for it. */
  get isUnread(): boolean {
    return this.#isUnread
  }

  /** False when nobody here listens, so that the process ends at once. */
  interrupt(signal: NodeJS.Signals): boolean {
    if (this.ignored.includes(signal)) return true
    if (this.#interrupt === null) return false
    if (this.#isAsked) return this.isPatient
    // Whoever asks again is in a hurry; a reader that left has asked for nothing.
    this.#isAsked = signal !== 'SIGPIPE'
    this.#isUnread = !this.#isAsked
    this.#interrupt.abort()
    return true
  }

  async close(): Promise<void> {
    for (const { outbox } of this.#opened) await outbox.close()
  }
}

const whoami = (): string => {
  try {
    return `${userInfo().username}@${hostname()}`
  } catch {
    // A user id without a name, as in many containers.
    return hostname()
  }
}
