import { describe, expect, it } from 'vitest'
import { isOutageError, isRetryAfter, OutageError } from '../../core/errors.ts'
import type { EventRecord } from '../../core/model/index.ts'
import type { OutgoingDelivery, SendResult } from '../../core/spi/index.ts'
import { brokerPublisher } from './broker.ts'
import { failed, SENT, sendEach } from './results.ts'

const delivery = (id: string, key: string | null = null): OutgoingDelivery => ({
  deliveryId: id,
  event: { id, key } as EventRecord,
  attempt: 1,
  run: 1,
  deduplicationId: id,
  topic: 'orders',
})

const batchOf = (count: number): OutgoingDelivery[] =>
  Array.from({ length: count }, (_, n) => delivery(String(n)))

interface Opened {
  broken(): void
  gone: boolean
}

/** A broker that closes the connection for some, and says nothing of what else was sent with them. */
const scripted = (closesFor: (id: string) => boolean, options: { orderedPrefix?: boolean } = {}) => {
  const arrived: string[] = []
  const state = { opened: 0, isThere: true, isSilent: false }
  const publisher = brokerPublisher<Opened>({
    name: 'a broker of the test',
    maxBatch: 1_000,
    ...options,
    async open(broken) {
      if (!state.isThere) throw new Error('nobody is there')
      state.opened += 1
      if (state.isSilent) await new Promise<never>(() => undefined)
      return { broken, gone: false }
    },
    end: () => undefined,
    async send(connection, deliveries) {
      // Everything is on its way before anything is answered.
      await new Promise((resolve) => setImmediate(resolve))
      if (connection.gone) return await new Promise<never>(() => undefined)
      if (deliveries.some(({ event }) => closesFor(event.id))) {
        connection.gone = true
        connection.broken()
        return await new Promise<never>(() => undefined)
      }
      arrived.push(...deliveries.map(({ event }) => event.id))
      return deliveries.map((): SendResult => SENT)
    },
  })
  const send = (deliveries: readonly OutgoingDelivery[], signal = new AbortController().signal) =>
    publisher.send(deliveries, { signal })
  return { publisher, send, arrived, state }
}

const verdict = (result: SendResult | undefined): string => {
  if (result?.ok !== false) return 'done'
  if (isOutageError(result.error)) return 'outage'
  return isRetryAfter(result.error) ? 'behind' : 'charged'
}

describe('a message for which the broker closes the connection', () => {
  it('is found among many, and the others arrive', async () => {
    const { send, arrived, state } = scripted((id) => id === '77')
    const results = await send(batchOf(100))
    expect(results.map(verdict)).toEqual(batchOf(100).map((_, n) => (n === 77 ? 'charged' : 'done')))
    expect(arrived.sort()).toEqual(
      batchOf(100)
        .map(({ event }) => event.id)
        .filter((id) => id !== '77')
        .sort(),
    )
    // Halves of a hundred, and once more alone.
    expect(state.opened).toBeLessThanOrEqual(12)
  })

  it('may be several', async () => {
    const { send } = scripted((id) => ['3', '4', '9'].includes(id))
    const results = (await send(batchOf(10))).map(verdict)
    expect(results).toEqual(
      batchOf(10).map(({ event }) => (['3', '4', '9'].includes(event.id) ? 'charged' : 'done')),
    )
  })

  it('costs nobody an attempt when nothing gets through', async () => {
    const { send } = scripted(() => true)
    for (let n = 0; n < 3; n += 1)
      expect(new Set((await send(batchOf(4))).map(verdict))).toEqual(new Set(['outage']))
  })

  it('opens a bounded number of connections', async () => {
    const { send, state } = scripted((id) => id !== '0')
    const results = (await send(batchOf(1_000))).map(verdict)
    expect(results[0]).toBe('done')
    expect(results.filter((each) => each === 'outage').length).toBeGreaterThan(900)
    expect(state.opened).toBeLessThanOrEqual(60)
  })

  it('disturbs what is sent at the same time, which arrives all the same', async () => {
    const { send } = scripted((id) => id === 'poison')
    const [first, second] = await Promise.all([
      send(batchOf(5)),
      send([delivery('a'), delivery('poison'), delivery('b')]),
    ])
    expect(first.map(verdict)).toEqual(batchOf(5).map(() => 'done'))
    expect(second.map(verdict)).toEqual(['done', 'charged', 'done'])
  })

  it('is overtaken by nothing of its key', async () => {
    const { send, arrived } = scripted((id) => id === 'k1', { orderedPrefix: true })
    const batch = [
      delivery('k0', 'k'),
      delivery('l0', 'l'),
      delivery('k1', 'k'),
      delivery('k2', 'k'),
      delivery('l1', 'l'),
    ]
    expect((await send(batch)).map(verdict)).toEqual(['done', 'done', 'charged', 'behind', 'done'])
    expect(arrived).toEqual(['k0', 'l0', 'l1'])
  })

  it('is not blamed when the broker goes away meanwhile', async () => {
    const { send, state } = scripted((id) => {
      if (id === '3') state.isThere = false
      return id === '3'
    })
    const results = (await send(batchOf(4))).map(verdict)
    expect(new Set(results)).toEqual(new Set(['outage']))
  })

  it('costs nobody an attempt who waited for it in vain', async () => {
    const { send, state } = scripted((id) => {
      if (id === 'poison') state.isSilent = true
      return id === 'poison'
    })
    const ending = new AbortController()
    const looking = send([delivery('poison'), delivery('a')], ending.signal)
    while (state.opened < 2) await new Promise((resolve) => setImmediate(resolve))
    const late = new AbortController()
    const waiting = send([delivery('b')], late.signal).catch((error: unknown) => [failed(error)])
    late.abort(new Error('too late'))
    expect((await waiting).map(verdict)).toEqual(['outage'])
    ending.abort(new Error('too late'))
    expect(new Set((await looking).map(verdict))).toEqual(new Set(['outage']))
  })

  it('is looked for no longer than the send may take', async () => {
    const controller = new AbortController()
    const { send } = scripted((id) => {
      if (id === '3') controller.abort(new Error('too late'))
      return id === '3'
    })
    await expect(send(batchOf(4), controller.signal)).rejects.toThrow('too late')
  })
})

describe('a send whose time is over', () => {
  /** A broker that never answers for some, and at once for the others. */
  const halting = (isSilent: (id: string) => boolean, options: { orderedPrefix?: boolean } = {}) => {
    const ending = new AbortController()
    const publisher = brokerPublisher<null>({
      name: 'a broker of the test',
      maxBatch: 10,
      ...options,
      open: async () => null,
      end: () => undefined,
      async send(_connection, deliveries, { answered }) {
        const sendOne = async ({ event: { id } }: OutgoingDelivery): Promise<void> => {
          if (isSilent(id)) await new Promise<never>(() => undefined)
          if (id === 'bad') throw new Error('refused')
        }
        const sending = sendEach(deliveries, sendOne, answered)
        await new Promise((resolve) => setImmediate(resolve))
        ending.abort(new Error('too late'))
        return await sending
      },
    })
    return (deliveries: readonly OutgoingDelivery[]) => publisher.send(deliveries, { signal: ending.signal })
  }

  it('has the answers that came in time; the others are outages', async () => {
    const send = halting((id) => id === '2')
    const batch = [delivery('0'), delivery('bad', 'k'), delivery('2', 'l'), delivery('3', 'm')]
    expect((await send(batch)).map(verdict)).toEqual(['done', 'charged', 'outage', 'done'])
  })

  it('has nothing of a key as sent behind one of it that has no answer', async () => {
    const send = halting((id) => id === 'k1', { orderedPrefix: true })
    const batch = [
      delivery('k0', 'k'),
      delivery('l0', 'l'),
      delivery('k1', 'k'),
      delivery('k2', 'k'),
      delivery('l1', 'l'),
      delivery('free'),
    ]
    expect((await send(batch)).map(verdict)).toEqual(['done', 'done', 'outage', 'outage', 'done', 'done'])
  })

  it('is an outage as a whole when there was no answer at all', async () => {
    const send = halting(() => true)
    await expect(send(batchOf(2))).rejects.toMatchObject({ code: 'POSTHASTE_OUTAGE' })
  })
})

describe('a connection that is used for long', () => {
  it('keeps nothing of the sends that have ended', async () => {
    const listening: number[] = []
    const signal = new AbortController().signal
    const { send } = scripted(() => false)
    const add = signal.addEventListener.bind(signal)
    let count = 0
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      count += 1
      add(...args)
    }
    const remove = signal.removeEventListener.bind(signal)
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      count -= 1
      remove(...args)
    }
    for (let n = 0; n < 5; n += 1) {
      await send([delivery(String(n))], signal)
      listening.push(count)
    }
    expect(listening).toEqual([0, 0, 0, 0, 0])
  })

  it('is not given up for an answer that is an outage', async () => {
    let opened = 0
    const publisher = brokerPublisher<null>({
      name: 'full',
      maxBatch: 10,
      open: async () => {
        opened += 1
        return null
      },
      end: () => undefined,
      send: async (_connection, deliveries) => deliveries.map(() => failed(new OutageError('no room'))),
    })
    for (let n = 0; n < 2; n += 1) {
      const results = await publisher.send(batchOf(2), { signal: new AbortController().signal })
      expect(results.map(verdict)).toEqual(['outage', 'outage'])
    }
    expect(opened).toBe(1)
  })

  it('is left when another server may be the right one; what is under way on it goes on', async () => {
    const lines: string[] = []
    const answers = new Map<string, (result: SendResult) => void>()
    const publisher = brokerPublisher<number>({
      name: 'demoted',
      maxBatch: 10,
      open: async () => lines.push('open'),
      end: (number) => void lines.push(`end ${number}`),
      async send(number, [first], { leave }) {
        const { id } = (first as OutgoingDelivery).event
        lines.push(`${id} on ${number}`)
        const result = await new Promise<SendResult>((answer) => answers.set(id, answer))
        if (!result.ok) leave()
        return [result]
      },
    })
    const send = async (id: string): Promise<() => Promise<readonly SendResult[]>> => {
      const sending = publisher.send([delivery(id)], { signal: new AbortController().signal })
      while (!answers.has(id)) await new Promise((resolve) => setImmediate(resolve))
      return () => sending
    }
    const outage = failed(new OutageError('not any more'))
    const [a, b, c] = [await send('a'), await send('b'), await send('c')]
    answers.get('a')?.(outage)
    expect((await a()).map(verdict)).toEqual(['outage'])
    const d = await send('d')
    answers.get('d')?.(SENT)
    expect((await d()).map(verdict)).toEqual(['done'])
    answers.get('b')?.(outage)
    expect((await b()).map(verdict)).toEqual(['outage'])
    answers.get('c')?.(SENT)
    expect((await c()).map(verdict)).toEqual(['done'])
    await publisher.close?.()
    expect(lines).toEqual(['open', 'a on 1', 'b on 1', 'c on 1', 'open', 'd on 5', 'end 1', 'end 5'])
  })

  it('is cut off at once when a send on it is given up: what it has in hand must not come after its successors', async () => {
    const lines: string[] = []
    const answers = new Map<string, (result: SendResult) => void>()
    const publisher = brokerPublisher<number>({
      name: 'Broker',
      maxBatch: 10,
      open: async () => lines.push('open'),
      end: (number) => void lines.push(`end ${number}`),
      async send(_, [first], { leave, signal }) {
        const { id } = (first as OutgoingDelivery).event
        const result = await new Promise<SendResult>((answer, reject) => {
          answers.set(id, answer)
          signal.addEventListener('abort', () => reject(signal.reason as Error))
        })
        if (!result.ok) leave()
        return [result]
      },
    })
    const late = new AbortController()
    const send = async (id: string, { signal } = new AbortController()) => {
      const sending = publisher.send([delivery(id)], { signal }).catch((error: unknown) => [failed(error)])
      while (!answers.has(id)) await new Promise((resolve) => setImmediate(resolve))
      return { ended: sending }
    }
    const [a, b, c] = [await send('a'), await send('b', late), await send('c')]
    answers.get('a')?.(failed(new OutageError('not any more')))
    await a.ended
    expect(lines).toEqual(['open'])
    late.abort(new Error('too late'))
    await b.ended
    expect(lines).toEqual(['open', 'end 1'])
    answers.get('c')?.(SENT)
    await c.ended
    await publisher.close?.()
  })
})
