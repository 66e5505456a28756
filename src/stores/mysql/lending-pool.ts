/** A pool that knows what it has lent. */
import { ERROR_CODES, StoreError } from '../../core/errors.ts'
import { type Runtime, within } from '../../core/spi/index.ts'
import { innerOf, type MysqlConnection, type MysqlPool, type MysqlSocket } from './driver.ts'

export class LendingPool {
  readonly #pool: MysqlPool<MysqlConnection>
  readonly #isOurs: boolean
  readonly #lent = new Set<MysqlConnection>()
  /** Those that have not ended. */
  readonly #sockets = new Set<MysqlSocket>()
  /** How many are lent or asked for. */
  #outside = 0
  #onAllBack: (() => void) | null = null

  constructor(pool: MysqlPool<MysqlConnection>, { isOurs }: { readonly isOurs: boolean }) {
    this.#pool = pool
    this.#isOurs = isOurs
  }

  async borrow(): Promise<MysqlConnection> {
    if (this.#onAllBack !== null) throw closedError()
    this.#outside += 1
    try {
      const connection = await this.#pool.getConnection()
      this.#lent.add(connection)
      this.#note(innerOf(connection).stream)
      return connection
    } catch (error) {
      this.#oneBack()
      throw this.#onAllBack === null ? error : closedError()
    }
  }

  /** Null when none was to be had in time; one that comes later goes back at once. */
  async borrowWithin(runtime: Runtime, limitMs: number): Promise<MysqlConnection | null> {
    const borrowing = this.borrow()
    if (await within(runtime, limitMs, borrowing)) return borrowing
    void borrowing.then(
      (late) => this.giveBack(late, { isBroken: false }),
      () => undefined,
    )
    return null
  }

  /** A connection that is broken is thrown away. */
  giveBack(connection: MysqlConnection, { isBroken }: { readonly isBroken: boolean }): void {
    if (!this.#lent.delete(connection)) return
    if (isBroken) throwAway(connection)
    else connection.release?.()
    this.#oneBack()
  }

  /**
   * Waits for what is lent, no longer than `limitMs`, and cuts off the rest. A pool of the application's is left alone.
   * mysql2 itself waits for nothing that is between two statements, and for ever for what fell silent.
   */
  async end(runtime: Runtime, limitMs: number): Promise<void> {
    if (!this.#isOurs) return
    const allBack = new Promise<void>((resolve) => {
      this.#onAllBack = resolve
    })
    const isOver = this.#outside === 0 || (await within(runtime, limitMs, allBack))
    for (const connection of this.#lent) cut(connection)
    // One that could not be made in time has nothing to end.
    const ended = this.#pool.end().catch(() => undefined)
    if (isOver) await within(runtime, limitMs, ended)
    // One that fell silent never ends, and must not keep the process.
    for (const socket of this.#sockets) socket.unref?.()
  }

  #note(socket: MysqlSocket | undefined): void {
    if (socket === undefined || !this.#isOurs || this.#sockets.has(socket)) return
    this.#sockets.add(socket)
    socket.once?.('close', () => this.#sockets.delete(socket))
  }

  #oneBack(): void {
    this.#outside -= 1
    if (this.#outside === 0) this.#onAllBack?.()
  }
}

const closedError = (): StoreError =>
  new StoreError(ERROR_CODES.closed, 'The MySQL store is closed, or is being closed.')

/** mysql2 itself leaves the socket to the server, which may have fallen silent. */
const throwAway = (connection: MysqlConnection): void => {
  connection.destroy()
  innerOf(connection).stream?.destroy?.()
}

/** Whoever waits for an answer over it hears that it is lost. */
const cut = (connection: MysqlConnection): void => {
  const { stream } = innerOf(connection)
  if (stream?.destroy === undefined) connection.destroy()
  else stream.destroy()
}
