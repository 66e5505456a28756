/**
 * A TCP connection that can be made to fail: stands between a client and a server, and does to both what networks
 * do. What it does applies at once to open and to new connections.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** `silent`: connections are accepted, and nothing is carried in either direction. */
type Mode = 'pass' | 'silent' | 'refuse'

const NEVER = (): void => undefined

interface Pair {
  readonly number: number
  readonly client: Socket
  readonly server: Socket
  /** Carries nothing any more, and neither end hears of the other's. */
  silent: boolean
  /** The client sent the awaited text: whatever the server answers does not arrive. */
  doom: Trap | null
}

interface Target {
  readonly host: string
  readonly port: number
}

interface Trap {
  readonly text: string
  readonly when: 'before' | 'after'
  /** `silence`: neither end hears that the connection carries nothing any more. */
  readonly how: 'cut' | 'silence'
  readonly sprung: () => void
}

export interface Proxy extends AsyncDisposable {
  /** The server's address, through here. */
  readonly url: string
  /** Numbers of the connections that the client has open now. */
  readonly open: readonly number[]
  /** Numbers of those on which something was swallowed. */
  readonly swallowed: ReadonlySet<number>
  /** New connections work; those that are silent stay so. */
  pass(): void
  refuse(): void
  /** All connections, open and new, carry nothing any more, and do not end. */
  goSilent(): void
  /** New connections go to another server. */
  redirect(serverUrl: string): void
  /** Every open connection ends with a reset. */
  cut(): void
  /**
   * Once: the connection on which the client sends `text` is cut, either before the server sees the text or
   * after the server has answered it, without the client hearing the answer. Resolves when that has happened.
   */
  cutAt(text: string, when: Trap['when']): Promise<void>
  /** Like `cutAt`, but the connection stays half open: it carries nothing any more, and does not end. */
  silenceAt(text: string, when: Trap['when']): Promise<void>
  /** What was asked of `cutAt` or `silenceAt` and has not happened yet does not happen. */
  disarm(): void
  /** Called with everything that clients send from now on; connections are counted from one. */
  onSent(listener: (connection: number, data: string) => void): void
}

const reset = ({ client, server }: Pair): void => {
  client.resetAndDestroy()
  server.resetAndDestroy()
}

class TcpProxy {
  #target: Target
  readonly #pairs = new Set<Pair>()
  // Half open, or a client that ends a silent connection would be told at once that the server had ended it, too.
  readonly #server = createServer({ allowHalfOpen: true }, (client) => this.#accept(client))
  #mode: Mode = 'pass'
  #trap: Trap | null = null
  #count = 0
  readonly swallowed = new Set<number>()
  onSent: (connection: number, data: string) => void = NEVER
  tell: (data: Buffer) => Buffer = (data) => data

  constructor(target: Target) {
    this.#target = target
  }

  redirect(target: Target): void {
    this.#target = target
  }

  get open(): number[] {
    return [...this.#pairs]
      .filter(({ client }) => !client.destroyed && !client.readableEnded)
      .map(({ number }) => number)
  }

  async listen(): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject).listen(0, '127.0.0.1', resolve)
    })
    return (this.#server.address() as AddressInfo).port
  }

  set(mode: Mode): void {
    this.#mode = mode
    if (mode === 'silent') for (const pair of this.#pairs) pair.silent = true
  }

  cut(): void {
    for (const pair of this.#pairs) reset(pair)
  }

  trapAt(text: string, when: Trap['when'], how: Trap['how']): Promise<void> {
    return new Promise((sprung) => {
      this.#trap = { text, when, how, sprung }
    })
  }

  disarm(): void {
    this.#trap = null
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.cut()
    await closed
  }

  #accept(client: Socket): void {
    if (this.#mode === 'refuse') {
      client.resetAndDestroy()
      return
    }
    const server = connect({ ...this.#target, noDelay: true, allowHalfOpen: true })
    const pair: Pair = {
      number: ++this.#count,
      client,
      server,
      silent: this.#mode === 'silent',
      doom: null,
    }
    this.#pairs.add(pair)
    client.setNoDelay(true)
    client.on('data', (data) => this.#fromClient(pair, data))
    server.on('data', (data) => this.#fromServer(pair, data))
    for (const [end, other] of [
      [client, server],
      [server, client],
    ] as const) {
      // A reset is what this is for; the other end hears of it by the close.
      end.on('error', NEVER)
      end.on('end', () => {
        if (!pair.silent) other.end()
      })
      end.on('close', () => {
        if (!pair.silent) other.destroy()
        if (other.destroyed) this.#pairs.delete(pair)
      })
    }
  }

  #fromClient(pair: Pair, data: Buffer): void {
    if (pair.silent) {
      this.swallowed.add(pair.number)
      return
    }
    this.onSent(pair.number, data.toString('latin1'))
    const trap = this.#trap
    if (trap !== null && data.includes(trap.text)) {
      this.#trap = null
      if (trap.when === 'before') {
        this.#spring(pair, trap)
        return
      }
      pair.doom = trap
    }
    pair.server.write(data)
  }

  #fromServer(pair: Pair, data: Buffer): void {
    if (pair.silent) return
    if (pair.doom === null) pair.client.write(this.tell(data))
    else this.#spring(pair, pair.doom)
  }

  #spring(pair: Pair, { how, sprung }: Trap): void {
    if (how === 'cut') reset(pair)
    else {
      pair.silent = true
      this.swallowed.add(pair.number)
    }
    sprung()
  }
}

const targetOf = ({ hostname, port }: URL): Target => ({ host: hostname, port: Number(port) })

/** `tell` may change what the server says; it is given the port of the proxy. */
export const startProxy = async (
  serverUrl: string,
  tell?: (data: Buffer, port: number) => Buffer,
): Promise<Proxy> => {
  const url = new URL(serverUrl)
  const proxy = new TcpProxy(targetOf(url))
  const port = await proxy.listen()
  if (tell !== undefined) proxy.tell = (data) => tell(data, port)
  url.port = String(port)
  url.hostname = '127.0.0.1'
  return {
    url: url.href,
    get open() {
      return proxy.open
    },
    swallowed: proxy.swallowed,
    pass: () => proxy.set('pass'),
    refuse: () => proxy.set('refuse'),
    goSilent: () => proxy.set('silent'),
    redirect: (other) => proxy.redirect(targetOf(new URL(other))),
    cut: () => proxy.cut(),
    cutAt: (text, when) => proxy.trapAt(text, when, 'cut'),
    silenceAt: (text, when) => proxy.trapAt(text, when, 'silence'),
    disarm: () => proxy.disarm(),
    onSent: (listener) => {
      proxy.onSent = listener
    },
    [Symbol.asyncDispose]: () => proxy.close(),
  }
}
