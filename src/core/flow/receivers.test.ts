import { describe, expect, it } from 'vitest'
import { ListenerRegistry } from '../listeners.ts'
import type { Delivery } from '../model/delivery.ts'
import type { ResolvedDestination } from '../options.ts'
import type { OutgoingDelivery, Publisher, SendResult } from '../spi/index.ts'
import { listenersReceiver, publisherReceiver } from './receivers.ts'

const delivery = (id: string, key: string | null): Delivery =>
  ({ id, run: 1, attempts: 0, event: { id, key } }) as unknown as Delivery

/** A publisher of one ordered batch, whose topic function knows nothing of the event `lost`. */
const create = (
  send = (batch: readonly OutgoingDelivery[]) => batch.map((): SendResult => ({ ok: true })),
) => {
  const sent: string[] = []
  const publisher = {
    send: async (batch: readonly OutgoingDelivery[]) => {
      sent.push(...batch.map(({ deliveryId }) => deliveryId))
      return send(batch)
    },
  } as unknown as Publisher
  const topic = ({ id }: { readonly id: string }): string => {
    if (id === 'lost') throw new Error('no topic')
    return id === 'nothing' ? (undefined as unknown as string) : 'topic'
  }
  const receiver = publisherReceiver(publisher, { topic } as unknown as ResolvedDestination)
  const receive = (batch: readonly Delivery[]) =>
    receiver.receive(batch, { signal: new AbortController().signal, over: false })
  return { sent, receive }
}

describe('an event without a topic in an ordered batch', () => {
  it('is not overtaken by what follows in its key, and others are sent', async () => {
    const { sent, receive } = create()
    const batch = [
      delivery('lost', 'k'),
      delivery('other', 'l'),
      delivery('behind', 'k'),
      delivery('free', null),
    ]
    const results = await receive(batch)
    expect(sent).toEqual(['other', 'free'])
    expect(results.map(({ ok }) => ok)).toEqual([false, true, false, true])
    expect(results[2]).toMatchObject({ error: { counted: false } })
  })

  it('is also one whose topic is no text', async () => {
    const { sent, receive } = create()
    const results = await receive([delivery('nothing', null), delivery('other', null)])
    expect(sent).toEqual(['other'])
    expect(results[0]).toMatchObject({ ok: false, error: { name: 'TypeError' } })
  })

  it('does not hide that the publisher gave too few results', async () => {
    const { receive } = create(() => [{ ok: true }])
    const batch = [delivery('lost', null), delivery('first', null), delivery('second', null)]
    await expect(receive(batch)).rejects.toThrow(TypeError)
  })
})

describe('what a publisher gets', () => {
  it('looks like a literal, because some libraries refuse anything else', async () => {
    const got: unknown[] = []
    const { receive } = create((batch) => {
      got.push(...batch)
      return batch.map((): SendResult => ({ ok: true }))
    })
    const one = delivery('one', null)
    await receive([one, { ...one, id: 'two', run: 2 }])
    const { event } = one
    expect(got).toStrictEqual([
      { deliveryId: 'one', event, attempt: 1, run: 1, deduplicationId: 'one', topic: 'topic' },
      { deliveryId: 'two', event, attempt: 1, run: 2, deduplicationId: 'one:2', topic: 'topic' },
    ])
  })
})

describe('several listeners of an event', () => {
  /** The first one waits for `end`; the attempt is over when the test says so. */
  const begin = () => {
    const registry = new ListenerRegistry()
    const heard: string[] = []
    const context = { signal: new AbortController().signal, over: false }
    let end = (): void => undefined
    registry.on('*', () => {
      heard.push('first')
      return new Promise<void>((resolve) => {
        end = resolve
      })
    })
    registry.on('*', () => void heard.push('second'))
    const receive = () => listenersReceiver(registry, 'local').receive([delivery('d', null)], context)
    return { heard, context, receive, end: () => end() }
  }

  it('hear it one after another', async () => {
    const { heard, receive, end } = begin()
    const results = receive()
    expect(heard).toEqual(['first'])
    end()
    expect(await results).toEqual([{ ok: true }])
    expect(heard).toEqual(['first', 'second'])
  })

  it('are not begun once the attempt is over, and it spends nothing', async () => {
    const { heard, context, receive, end } = begin()
    const results = receive()
    context.over = true
    end()
    expect(await results).toMatchObject([{ ok: false, error: { counted: false } }])
    expect(heard).toEqual(['first'])
  })

  it('have all heard it when the attempt is over after the last one', async () => {
    const registry = new ListenerRegistry()
    const context = { signal: new AbortController().signal, over: false }
    registry.on('*', async () => {
      context.over = true
    })
    const receiver = listenersReceiver(registry, 'local')
    expect(await receiver.receive([delivery('d', null)], context)).toEqual([{ ok: true }])
  })
})
