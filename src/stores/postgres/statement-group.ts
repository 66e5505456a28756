/**
 * A statement of ours in one round trip with BEGIN or with COMMIT. Both are written before either is answered, with one
 * Sync behind them: a server that refuses the first skips the second. It is a query of its own kind, as cursors are, so
 * that `pg` keeps its order.
 */
import { knowsCallbacks, type PostgresConnection, type PostgresQuery } from './driver.ts'

/** What `pg` has behind a client: the messages of the protocol, and what was prepared on this connection. */
export interface PostgresWire {
  readonly stream: { cork?(): void; uncork?(): void; destroy?(): void }
  readonly parsedStatements: Readonly<Record<string, string | undefined>>
  parse(message: { readonly text: string; readonly name: string; readonly types: readonly [] }): void
  bind(message: {
    readonly portal: string
    readonly statement: string
    readonly values: PostgresQuery['values']
  }): void
  execute(message: { readonly portal: string; readonly rows: number }): void
  flush(): void
  sync(): void
}

const MESSAGES = ['parse', 'bind', 'execute', 'sync'] as const

/** Those of `pg` itself. One that pipelines refuses queries of other kinds. */
export const canGroup = (connection: PostgresConnection): boolean => {
  const wire = connection.connection as Partial<PostgresWire> | undefined
  if (!knowsCallbacks(connection) || connection.pipeline === true) return false
  return (
    typeof wire?.parsedStatements === 'object' && MESSAGES.every((name) => typeof wire[name] === 'function')
  )
}

/**
 * Functions `query` that have given a query of ours to the server at once and as it was. Of one that has not, nobody
 * knows: it may make another query of it, and what was to be sent behind BEGIN would run without.
 */
const carriers = new WeakSet<PostgresConnection['query']>()

export const isCarrier = (connection: PostgresConnection): boolean => carriers.has(connection.query)

const notPassedOn = (): Error =>
  new Error(
    'What is around query() of this client made a query of its own instead of passing on the one it got',
  )

const writeStatement = (wire: PostgresWire, name: string, values: PostgresQuery['values']): void => {
  wire.bind({ portal: '', statement: name, values })
  wire.execute({ portal: '', rows: 0 })
}

const writeControl = (wire: PostgresWire, text: 'BEGIN' | 'COMMIT'): void => {
  wire.parse({ text, name: '', types: [] })
  writeStatement(wire, '', [])
}

export const writeBegin = (wire: PostgresWire): void => writeControl(wire, 'BEGIN')

export class StatementGroup {
  /** By this and `name` the driver knows what is prepared, and tracing libraries what is sent. */
  readonly text: string
  readonly values: PostgresQuery['values']
  readonly #name: string | undefined
  readonly #with: 'BEGIN' | 'COMMIT'
  #isCalling = false
  /** Sent, and BEGIN not answered. */
  #isBeginning = false
  #isSent = false
  /** What was answered so far. */
  readonly #commands: string[] = []
  /** Where `pg` looks for it: a timeout of the application's is put around it. */
  callback: (error: Error | null) => void = () => undefined

  constructor({ text, name, values }: PostgresQuery, other: 'BEGIN' | 'COMMIT') {
    this.#with = other
    this.text = text
    this.#name = name
    this.values = values
  }

  /**
   * The driver takes it for prepared as soon as anything is, and BEGIN is prepared first. Before that it is there to be
   * seen: who leaves queries with a name alone must leave this one alone.
   */
  get name(): string | undefined {
    return this.#isBeginning ? undefined : this.#name
  }

  /** False: an error was the first one's, and the second has not run. */
  get hasRun(): boolean {
    return this.#commands.length > 0
  }

  /** What COMMIT was answered with: `ROLLBACK` when the transaction had failed before. */
  get command(): string {
    return this.#commands[1] ?? ''
  }

  /** `refused` hears of an error at once, before the driver sends what waits behind this. */
  send(connection: PostgresConnection, refused = (error: unknown): unknown => error): Promise<void> {
    return new Promise((resolve, reject) => {
      const fail = (error: unknown): void => reject(refused(error))
      this.callback = (error) => (error ? fail(error) : resolve())
      try {
        const returned = this.#callOn(connection)
        // `pg` returns the query itself. A function around it may fail, or make a query of its own.
        if (returned instanceof Promise)
          returned.then((answer) => {
            if (answer !== this) fail(notPassedOn())
          }, fail)
      } catch (error) {
        fail(error)
      }
    })
  }

  #callOn(connection: PostgresConnection): unknown {
    const { query } = connection
    this.#isCalling = true
    const returned = connection.query(this)
    this.#isCalling = false
    // One that is asynchronous may do otherwise the next time.
    if (this.#isSent && returned === this) carriers.add(query)
    return returned
  }

  submit(wire: PostgresWire): null {
    const { text, values } = this
    const name = this.#name ?? ''
    this.#isSent = this.#isCalling
    this.#isBeginning = this.#with === 'BEGIN'
    // In one packet, as `pg` itself does it.
    wire.stream.cork?.()
    try {
      if (this.#with === 'BEGIN') writeBegin(wire)
      if (wire.parsedStatements[name] === undefined) wire.parse({ text, name, types: [] })
      writeStatement(wire, name, values)
      if (this.#with === 'COMMIT') writeControl(wire, 'COMMIT')
      wire.sync()
    } finally {
      wire.stream.uncork?.()
    }
    return null
  }

  handleCommandComplete(message: { readonly text: string }): void {
    this.#commands.push(message.text)
    this.#isBeginning = false
  }

  handleError(error: Error): void {
    this.callback(error)
  }

  handleReadyForQuery(): void {
    this.callback(null)
  }

  // What `pg` tells whoever is at work, and we need not know.
  handleRowDescription(): void {}
  handleDataRow(): void {}
  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
}
