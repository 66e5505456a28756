/**
 * A statement and COMMIT in one round trip. Both are written before either is answered, with one Sync behind them: a server
 * that refuses the statement skips the COMMIT. It is a query of its own kind, as cursors are, so that `pg` keeps its order.
 */
import { knowsCallbacks, type PostgresConnection, type PostgresQuery } from './driver.ts'

/** What `pg` has behind a client: the messages of the protocol, and what was prepared on this connection. */
export interface PostgresWire {
  readonly stream: { cork?(): void; uncork?(): void }
  readonly parsedStatements: Readonly<Record<string, string | undefined>>
  parse(message: { readonly text: string; readonly name: string; readonly types: readonly [] }): void
  bind(message: {
    readonly portal: string
    readonly statement: string
    readonly values: PostgresQuery['values']
  }): void
  execute(message: { readonly portal: string; readonly rows: number }): void
  sync(): void
}

const MESSAGES = ['parse', 'bind', 'execute', 'sync'] as const

/** Those of `pg` itself. One that pipelines refuses queries of other kinds. */
export const canCommitWith = (connection: PostgresConnection): boolean => {
  const wire = connection.connection as Partial<PostgresWire> | undefined
  if (!knowsCallbacks(connection) || connection.pipeline === true) return false
  return (
    typeof wire?.parsedStatements === 'object' && MESSAGES.every((name) => typeof wire[name] === 'function')
  )
}

export class CommitWith {
  /** By these `pg` knows what is prepared under the name, and tracing libraries what is sent. */
  readonly text: string
  readonly name: string | undefined
  readonly values: PostgresQuery['values']
  /** What was answered so far. */
  readonly #commands: string[] = []
  /** Where `pg` looks for it: a timeout of the application's is put around it. */
  callback: (error: Error | null) => void = () => undefined

  constructor({ text, name, values }: PostgresQuery) {
    this.text = text
    this.name = name
    this.values = values
  }

  /** False: an error was the statement's, and there was no COMMIT. */
  get hasRun(): boolean {
    return this.#commands.length > 0
  }

  /** What COMMIT was answered with: `ROLLBACK` when the transaction had failed before. */
  get command(): string {
    return this.#commands[1] ?? ''
  }

  send(connection: PostgresConnection): Promise<void> {
    return new Promise((resolve, reject) => {
      this.callback = (error) => (error ? reject(error) : resolve())
      const returned = connection.query(this)
      // `pg` returns the query itself. An asynchronous function around it may fail before `pg` hears of it.
      if (returned instanceof Promise) returned.catch(reject)
    })
  }

  submit(wire: PostgresWire): null {
    const { text, name = '', values } = this
    // In one packet, as `pg` itself does it.
    wire.stream.cork?.()
    try {
      if (wire.parsedStatements[name] === undefined) wire.parse({ text, name, types: [] })
      wire.bind({ portal: '', statement: name, values })
      wire.execute({ portal: '', rows: 0 })
      wire.parse({ text: 'COMMIT', name: '', types: [] })
      wire.bind({ portal: '', statement: '', values: [] })
      wire.execute({ portal: '', rows: 0 })
      wire.sync()
    } finally {
      wire.stream.uncork?.()
    }
    return null
  }

  handleCommandComplete(message: { readonly text: string }): void {
    this.#commands.push(message.text)
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
