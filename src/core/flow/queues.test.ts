import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Delivery } from '../model/delivery.ts'
import { Queues } from './queues.ts'

const BOUNDS = { hot: 100, cold: 100, bytes: 1_000_000 }

let nextId = 0
const delivery = (given: {
  key?: string | null
  seq?: bigint
  source?: 'hot' | 'cold'
  size?: number
  alone?: boolean
}): Delivery => {
  nextId += 1
  const { key = null, seq = BigInt(nextId), source = 'cold', size = 10, alone = false } = given
  return {
    id: `d${nextId}`,
    destination: 'x',
    run: 1,
    lane: 0,
    seq,
    attempts: 0,
    attemptSpent: false,
    alone,
    holdsKey: false,
    right: { kind: 'lane', workerId: 'w' },
    source,
    event: {
      id: `e${nextId}`,
      type: 't',
      version: 1,
      key,
      aggregateType: null,
      aggregateId: null,
      tenantId: null,
      headers: {},
      contentType: 'application/json',
      data: '{}',
      size,
      occurredAtMs: 0,
      createdAtMs: 0,
      replacesId: null,
    },
  }
}

describe('the queues of a destination', () => {
  it('are stocked when they are more than half full, unless all of it waits for its key', () => {
    const queues = new Queues({ ...BOUNDS, cold: 4 })
    const offer = (key: string | null): boolean => queues.offer(delivery({ key }))
    offer(null)
    offer(null)
    expect(queues.isStocked('cold')).toBe(false)
    offer('k')
    expect(queues.isStocked('cold')).toBe(true)
    queues.take(3, false)
    expect(queues.isStocked('cold')).toBe(false)
    for (let i = 0; i < 4; i += 1) offer('k')
    expect([queues.depth('cold'), queues.isStocked('cold')]).toEqual([4, false])
  })

  it('give back more than one call can have arguments, whether it is ready or waits for its key', () => {
    const many = 200_000
    const queues = new Queues({ hot: many, cold: many, bytes: 1e9 })
    for (let i = 0; i < many; i += 1) queues.offer(delivery({ source: 'hot' }))
    for (let i = 0; i < many; i += 1) queues.offer(delivery({ key: 'k' }))
    expect(queues.drop(() => true)).toHaveLength(2 * many)
    expect(queues.size).toBe(0)
  })

  it('serve hot deliveries first and never starve cold ones', () => {
    const queues = new Queues(BOUNDS)
    for (let i = 0; i < 30; i += 1) queues.offer(delivery({ source: 'hot' }))
    const cold = delivery({ source: 'cold' })
    queues.offer(cold)
    const order = Array.from({ length: 31 }, () => queues.take(1, false)[0])
    expect(order[0]?.source).toBe('hot')
    expect(order.indexOf(cold)).toBeGreaterThan(0)
    expect(order.indexOf(cold)).toBeLessThan(10)
  })

  it('let cold ones go before a hot one that was put back to the back', () => {
    const queues = new Queues(BOUNDS)
    const [hot, behind] = [1n, 2n].map((seq) => delivery({ source: 'hot', key: 'k', seq })) as [
      Delivery,
      Delivery,
    ]
    const [cold, fresh] = [delivery({}), delivery({ source: 'hot' })]
    for (const each of [hot, behind, cold]) queues.offer(each)
    expect(queues.take(1, false)).toEqual([hot])
    queues.putBack(hot, 'back')
    queues.offer(fresh)
    expect(queues.take(10, false)).toEqual([fresh, cold, hot])
    queues.complete(hot)
    expect(queues.take(10, false)).toEqual([behind])
  })

  it('let all others go before those that are postponed, hot or cold, and keep the order of their keys', () => {
    const queues = new Queues(BOUNDS)
    const line = [1n, 2n].map((seq) => delivery({ source: 'hot', key: 'k', seq })) as [Delivery, Delivery]
    const [first, second] = [delivery({}), delivery({})]
    for (const each of [...line, first, second]) queues.offer(each)
    queues.postpone((id) => id === first.id || id === line[0].id)
    expect(queues.take(10, false)).toEqual([second, line[0], first])
    queues.complete(line[0])
    expect(queues.take(10, false)).toEqual([line[1]])
  })

  it('send what is single in a batch of its own, in its turn, and as one of its key', () => {
    const queues = new Queues(BOUNDS)
    const [one, two, three] = [delivery({}), delivery({}), delivery({})]
    const line = [1n, 2n, 3n].map((seq) => delivery({ key: 'k', seq })) as [Delivery, Delivery, Delivery]
    for (const each of [one, two, three, ...line]) queues.offer(each)
    const singles = new Set([two.id, line[1].id])
    const take = () => queues.take(10, true, (id) => singles.has(id))
    expect([take(), take(), take(), take()]).toEqual([[one], [two], [three, line[0]], []])
    queues.complete(line[0])
    expect([take(), take()]).toEqual([[line[1]], []])
    queues.complete(line[1])
    expect(take()).toEqual([line[2]])
  })

  it('let one delivery of a key run at a time, in seq order, whatever order they came in', () => {
    const queues = new Queues(BOUNDS)
    const [first, second, third] = [1n, 2n, 3n].map((seq) => delivery({ key: 'k', seq }))
    for (const each of [first, third, second]) queues.offer(each as Delivery)
    expect(queues.take(10, false)).toEqual([first])
    expect(queues.take(10, false)).toEqual([])
    queues.complete(first as Delivery)
    expect(queues.take(10, false)).toEqual([second])
  })

  it('let a batch of an ordered-prefix publisher take the followers of a key along', () => {
    const queues = new Queues(BOUNDS)
    const line = [1n, 2n, 3n].map((seq) => delivery({ key: 'k', seq }))
    for (const each of line) queues.offer(each)
    expect(queues.take(10, true)).toEqual(line)
    queues.complete(line[0] as Delivery)
    queues.stall(line[1] as Delivery)
    queues.putBack(line[2] as Delivery, 'front')
    expect(queues.take(10, true)).toEqual([])
    expect(queues.takeStalled('k')).toEqual([line[2]])
  })

  it('stay closed for a key until every delivery that failed was let go, also when nothing of it is left', () => {
    const queues = new Queues(BOUNDS)
    const line = [5n, 6n].map((seq) => delivery({ key: 'k', seq })) as [Delivery, Delivery]
    for (const each of line) queues.offer(each)
    queues.take(2, true)
    for (const each of line) queues.stall(each)
    for (const each of line) queues.forget(each)
    queues.unstall('k', [line[0].id])
    const third = delivery({ key: 'k', seq: 7n })
    queues.offer(third)
    expect(queues.take(10, false)).toEqual([])
    queues.unstall('k', [line[1].id])
    expect(queues.take(10, false)).toEqual([third])
  })

  it('name the keys of what is about to be given back, until it is forgotten', () => {
    const queues = new Queues(BOUNDS)
    const [gone, other] = [delivery({ key: 'k', seq: 1n }), delivery({ key: 'l', seq: 2n })]
    for (const each of [gone, other]) queues.offer(each)
    queues.take(2, false)
    expect(queues.leavingKeys()).toEqual(new Set())
    queues.stall(gone)
    queues.unstall('k', [gone.id])
    expect(queues.leavingKeys()).toEqual(new Set(['k']))
    queues.forget(gone)
    expect(queues.leavingKeys()).toEqual(new Set())
  })

  it('keep a failed key closed until it is let go, even for what arrives later', () => {
    const queues = new Queues(BOUNDS)
    const head = delivery({ key: 'k', seq: 1n })
    queues.offer(head)
    queues.take(1, false)
    queues.stall(head)
    const later = delivery({ key: 'k', seq: 2n })
    queues.offer(later)
    expect(queues.take(1, false)).toEqual([])
    expect(queues.coversKey('k', [head.id])).toBe(false)
    expect(queues.takeStalled('k')).toEqual([later])
    queues.forget(later)
    queues.forget(head)
    queues.unstall('k', [head.id])
    expect(queues.size).toBe(0)
    const again = delivery({ key: 'k', seq: 3n })
    queues.offer(again)
    expect(queues.take(1, false)).toEqual([again])
  })

  it('run a quarantined delivery alone', () => {
    const queues = new Queues(BOUNDS)
    const other = delivery({})
    const alone = delivery({ alone: true })
    const behind = delivery({})
    for (const each of [other, alone, behind]) queues.offer(each)
    expect(queues.take(3, false)).toEqual([other])
    expect(queues.take(3, false)).toEqual([])
    queues.complete(other)
    expect(queues.take(3, false)).toEqual([alone])
    expect(queues.take(3, false)).toEqual([])
    queues.complete(alone)
    expect(queues.take(3, false)).toEqual([behind])
  })

  it('refuse what would exceed the bytes, also while they are below the bound', () => {
    const queues = new Queues({ hot: 10, cold: 10, bytes: 25 })
    expect([1, 2, 3].map(() => queues.offer(delivery({ size: 10 })))).toEqual([true, true, false])
    expect(queues.byteRoom()).toBe(5)
  })

  it('refuse what exceeds the count or the bytes, but pass a single delivery of any size', () => {
    const queues = new Queues({ hot: 1, cold: 2, bytes: 100 })
    expect(queues.offer(delivery({ size: 500 }))).toBe(true)
    expect(queues.offer(delivery({ size: 1 }))).toBe(false)
    const small = new Queues({ hot: 1, cold: 2, bytes: 100 })
    expect(small.offer(delivery({ source: 'hot' }))).toBe(true)
    expect(small.offer(delivery({ source: 'hot' }))).toBe(false)
    expect(small.offer(delivery({}))).toBe(true)
  })

  it('accept a delivery that is already here without holding it twice', () => {
    const queues = new Queues(BOUNDS)
    const one = delivery({})
    queues.offer(one)
    expect(queues.offer(one)).toBe(true)
    expect(queues.take(10, false)).toEqual([one])
    expect(queues.take(10, false)).toEqual([])
    expect(queues.has(one.id)).toBe(true)
    queues.forget(one)
    expect(queues.has(one.id)).toBe(false)
  })

  it('keep order, bounds and counts under any sequence of steps', () => {
    const step = fc.oneof(
      fc.record({
        do: fc.constant('offer' as const),
        key: fc.constantFrom(null, 'a', 'b'),
        hot: fc.boolean(),
      }),
      fc.record({
        do: fc.constantFrom(
          'take',
          'complete',
          'stall',
          'putBack',
          'putToTheBack',
          'postpone',
          'aside',
          'drop',
        ),
      }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const bounds = { hot: 5, cold: 5, bytes: 10_000 }
        const queues = new Queues(bounds, 3)
        const running: Delivery[] = []
        const lastDone = new Map<string, bigint>()
        const stalled = new Set<string>()
        const mostRunning = { hot: 0, cold: 0 }
        for (const it of steps) {
          if (it.do === 'offer' && 'key' in it)
            queues.offer(delivery({ key: it.key, source: it.hot ? 'hot' : 'cold' }))
          else if (it.do === 'take') running.push(...queues.take(2, false, (id) => id.endsWith('3')))
          else if (it.do === 'postpone') queues.postpone((id) => /[0-4]$/.test(id))
          else if (it.do === 'aside') {
            for (const key of ['a', 'b']) {
              for (const each of queues.takeStalled(key)) queues.forget(each)
              queues.unstall(key, stalled)
            }
          } else if (it.do === 'drop') queues.drop(({ source }) => source === 'hot')
          else {
            const one = running.shift()
            if (one === undefined) continue
            if (it.do === 'complete') {
              const { key } = one.event
              if (key !== null) {
                expect((one.seq as bigint) > (lastDone.get(key) ?? 0n)).toBe(true)
                lastDone.set(key, one.seq as bigint)
              }
              queues.complete(one)
              queues.forget(one)
            } else if (it.do === 'stall') {
              queues.stall(one)
              stalled.add(one.id)
              queues.forget(one)
            } else queues.putBack(one, it.do === 'putBack' ? 'front' : 'back')
          }
          const keys = running.flatMap(({ event }) => (event.key === null ? [] : [event.key]))
          expect(new Set(keys).size).toBe(keys.length)
          expect(queues.running).toBe(running.length)
          // What was put back may stand above the bound, by no more than ever ran at once: others took its place.
          for (const source of ['hot', 'cold'] as const) {
            const now = running.filter((one) => one.source === source).length
            mostRunning[source] = Math.max(mostRunning[source], now)
            expect(queues.depth(source) + now).toBeLessThanOrEqual(bounds[source] + mostRunning[source])
          }
        }
      }),
      { numRuns: 500 },
    )
  })
})
