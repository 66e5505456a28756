/** `processOnce` and `flush` where new events never stop coming: there is no moment in which nothing runs. */
import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { fixed } from '../../src/index.ts'
import { type AnyOutbox, deliveryOf, type Gate, gate, KINDS, publishOne, World } from './world.ts'

const event = (n: number, key: string | null = null) => ({ type: 'tick', payload: n, key })

/** More than any round or flush needs that does not wait for the traffic to end. */
const PLENTY = 1_000
/** As many as one of them that was not kept from it would have ended in. */
const ENOUGH = 100

/** Each listener ends only when the next one has begun. */
class Traffic {
  readonly #world: World
  readonly #outbox: AnyOutbox
  readonly #key: string | null
  readonly #begun: Gate[] = []
  readonly #ends: Gate[] = []
  readonly #ids: string[] = []
  running = 0

  constructor(world: World, outbox: AnyOutbox, key: string | null = null) {
    this.#world = world
    this.#outbox = outbox
    this.#key = key
    outbox.on<number>('tick', async ({ payload }) => {
      this.running += 1
      this.#begun[payload]?.open()
      await this.#ends[payload]?.promise
      this.running -= 1
    })
  }

  get count(): number {
    return this.#ends.length
  }

  /** The next event is under way. */
  async begin(): Promise<string> {
    const n = this.#ends.length
    this.#begun.push(gate())
    this.#ends.push(gate())
    const id = await publishOne(this.#outbox, event(n, this.#key === null ? null : `${this.#key}${n}`))
    this.#ids.push(id)
    await this.#begun[n]?.promise
    return id
  }

  async end(n: number): Promise<void> {
    this.#ends[n]?.open()
    const isIt = ({ delivery }: World['settled'][number]) => delivery.event.id === this.#ids[n]
    await this.#world.until(() => this.#world.settled.slice(-PLENTY).some(isIt))
  }

  /** Whether it comes to its end while events go on coming and ending, but for those before `from`. */
  async outlasts(work: Promise<unknown>, most = PLENTY, from = 0): Promise<boolean> {
    let isOver = false
    void work.then(() => {
      isOver = true
    })
    for (let turns = 0; turns < most && !isOver; turns += 1) {
      await this.begin()
      if (this.count - 2 >= from) await this.end(this.count - 2)
    }
    expect(this.running).toBeGreaterThan(0)
    return isOver
  }

  endAll(): void {
    for (const { open } of this.#ends) open()
  }
}

describe.each(KINDS)('a started process under steady traffic on %s', (kind) => {
  describe.each([
    ['keyless', null],
    ['keyed', 'k'],
  ])('of %s events', (_, key) => {
    it('comes to the end of a round, and of rounds behind it', async () => {
      await using world = new World(kind)
      const outbox = world.outbox()
      const traffic = new Traffic(world, outbox, key)
      await outbox.start()
      const id = await traffic.begin()
      const rounds = Promise.all([outbox.processOnce(), outbox.processOnce()])
      expect(await traffic.outlasts(rounds)).toBe(true)
      expect((await deliveryOf(outbox, id)).status).toBe('done')
      traffic.endAll()
    })

    it('is drained when that is through which was due at the call', async () => {
      await using world = new World(kind)
      const outbox = world.outbox()
      const traffic = new Traffic(world, outbox, key)
      await outbox.start()
      const id = await traffic.begin()
      const flushing = outbox.flush({ timeoutMs: 600_000 })
      expect(await traffic.outlasts(flushing)).toBe(true)
      expect(await flushing).toEqual({ drained: true, failed: 0 })
      expect((await deliveryOf(outbox, id)).status).toBe('done')
      traffic.endAll()
    })

    it('is not drained while something of that still runs', async () => {
      await using world = new World(kind)
      const outbox = world.outbox()
      const traffic = new Traffic(world, outbox, key)
      await outbox.start()
      await traffic.begin()
      const flushing = outbox.flush({ timeoutMs: 600_000 })
      expect(await traffic.outlasts(flushing, ENOUGH, 1)).toBe(false)
      await traffic.end(0)
      expect(await traffic.outlasts(flushing)).toBe(true)
      expect(await flushing).toEqual({ drained: true, failed: 0 })
      traffic.endAll()
    })
  })

  it('is not drained while a destination is paused that something is due for', async () => {
    await using world = new World(kind)
    const outbox = world.outbox({ destinations: { paused: { events: ['other'] } } })
    outbox.on('paused', 'other', () => undefined)
    const traffic = new Traffic(world, outbox)
    await outbox.start()
    await outbox.operator.pause('paused')
    await publishOne(outbox, { type: 'other', payload: {} })
    await traffic.begin()
    const flushing = outbox.flush({ timeoutMs: 600_000 })
    expect(await traffic.outlasts(flushing, ENOUGH)).toBe(false)
    await outbox.operator.resume('paused')
    expect(await traffic.outlasts(flushing)).toBe(true)
    expect(await flushing).toEqual({ drained: true, failed: 0 })
    traffic.endAll()
  })
})

describe.each([
  ['started', true],
  ['never started', false],
])('flush of a process that was %s', (_, started) => {
  /** A listener that publishes the next event until there were so many. */
  const chain = async (world: World, length: number) => {
    const outbox = world.outbox()
    const heard: number[] = []
    outbox.on<number>('tick', async ({ payload }) => {
      heard.push(payload)
      await setImmediate()
      if (heard.length < length) await publishOne(outbox, event(payload + 1))
    })
    if (started) await outbox.start()
    await publishOne(outbox, event(1))
    return { outbox, heard }
  }

  it('follows what listeners publish', async () => {
    await using world = new World('memory')
    const { outbox, heard } = await chain(world, 6)
    expect(await outbox.flush()).toEqual({ drained: true, failed: 0 })
    expect(heard).toEqual([1, 2, 3, 4, 5, 6])
  })

  it('does not follow it for ever', async () => {
    await using world = new World('memory')
    const { outbox, heard } = await chain(world, PLENTY)
    expect(await outbox.flush({ timeoutMs: 600_000 })).toEqual({ drained: true, failed: 0 })
    expect(heard.length).toBeGreaterThan(9)
    expect(heard.length).toBeLessThan(PLENTY)
  })

  it('goes on as long as something is due from before the call, however many rounds that takes', async () => {
    await using world = new World('memory')
    const outbox = world.outbox({ retry: fixed({ delayMs: 0, maxAttempts: 30 }) })
    const heard: number[] = []
    let attempts = 0
    outbox.on<number>('tick', ({ payload }) => {
      if (payload === 0) attempts += 1
      if (payload === 0 && attempts < 30) throw new Error('not yet')
      heard.push(payload)
    })
    // Behind the first all are held, and promoted by the hundred when it is through.
    const numbers = Array.from({ length: 2_000 }, (_, n) => n)
    await outbox.transaction((tx) =>
      outbox.publishMany(
        tx,
        numbers.map((n) => event(n, 'k')),
      ),
    )
    if (started) await outbox.start()
    expect(await outbox.flush({ timeoutMs: 600_000 })).toEqual({ drained: true, failed: 29 })
    expect(heard).toEqual(numbers)
  })
})
