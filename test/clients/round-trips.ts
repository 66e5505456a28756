/**
 * How often clients of PostgreSQL waited for the server, seen on the wire: each time they ask it to answer what was
 * sent so far, by a query, a sync or a flush. A flush that has more behind it in one packet is not waited for.
 */
const WAITS = new Set(['Q', 'S'])
const FLUSH = 'H'

/** The message after which messages have a type: the first one of a connection has none. */
class Conversation {
  #rest = ''
  #started = false

  /** Counts the waits in what a client sent; messages may come in pieces. */
  take(data: string): number {
    this.#rest += data
    let waits = 0
    for (;;) {
      const head = this.#started ? 1 : 0
      if (this.#rest.length < head + 4) return waits
      const length = Buffer.from(this.#rest.slice(head, head + 4), 'latin1').readUInt32BE() + head
      if (this.#rest.length < length) return waits
      const type = this.#started ? this.#rest.charAt(0) : ''
      if (WAITS.has(type) || (type === FLUSH && this.#rest.length === length)) waits += 1
      // A request for TLS is refused by the test servers, and the start follows.
      if (!this.#started && length > 8) this.#started = true
      this.#rest = this.#rest.slice(length)
    }
  }
}

export class RoundTrips {
  readonly #conversations = new Map<number, Conversation>()
  #count = 0

  sent(connection: number, data: string): void {
    const conversation = this.#conversations.get(connection) ?? new Conversation()
    this.#conversations.set(connection, conversation)
    this.#count += conversation.take(data)
  }

  async during(fn: () => Promise<unknown>): Promise<number> {
    const before = this.#count
    await fn()
    return this.#count - before
  }
}
