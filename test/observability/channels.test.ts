/** What subscribers of node:diagnostics_channel hear, and that it costs nothing while there are none. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterEach, expect, it } from 'vitest'
import { CHANNELS, type ChannelName } from '../../src/core/runtime/channels.ts'
import { createOutbox, PermanentError } from '../../src/index.ts'
import { memoryStore } from '../../src/testing/index.ts'

const NAMES = Object.keys(CHANNELS) as ChannelName[]
const undo: (() => void)[] = []
afterEach(() => {
  for (const one of undo.splice(0)) one()
})

const listen = (): Map<ChannelName, unknown[]> => {
  const heard = new Map<ChannelName, unknown[]>(NAMES.map((name) => [name, []]))
  for (const name of NAMES) {
    const hear = (message: unknown): void => void heard.get(name)?.push(message)
    subscribe(`posthaste:${name}`, hear)
    undo.push(() => unsubscribe(`posthaste:${name}`, hear))
  }
  return heard
}

it('publishing, attempts, settles, reads and lanes are told, without payloads, headers or keys', async () => {
  const heard = listen()
  const outbox = createOutbox({ store: memoryStore() })
  outbox.on('*', ({ type }) => {
    if (type === 'bad') throw new PermanentError('no')
  })
  await outbox.start()
  const ids = await outbox.transaction((tx) =>
    outbox.publishMany(tx, [
      { type: 'good', payload: 'canary', headers: { canary: 'canary' }, tenantId: 'canary' },
      { type: 'bad', payload: 'canary', key: 'canary' },
    ]),
  )
  await outbox.flush()
  await outbox.close()
  const events = [
    { id: ids[0], type: 'good' },
    { id: ids[1], type: 'bad' },
  ]
  expect(heard.get('publish')).toEqual([{ events }])
  const attempts = heard.get('attempt') as { readonly deliveries: readonly Record<string, unknown>[] }[]
  expect(attempts.flatMap(({ deliveries }) => deliveries)).toMatchObject(
    expect.arrayContaining([
      expect.objectContaining({ eventId: ids[0], attempt: 1, path: 'hot', verdict: 'done', code: null }),
      expect.objectContaining({ eventId: ids[1], verdict: 'dead', code: 'POSTHASTE_PERMANENT' }),
    ]),
  )
  expect(heard.get('lanes')).toMatchObject([
    { destination: 'local', change: 'gained', lanes: { length: 64 } },
  ])
  expect(heard.get('settle')?.length).toBeGreaterThan(0)
  expect(heard.get('read')?.length).toBeGreaterThan(0)
  expect(JSON.stringify([...heard])).not.toContain('canary')
})

it('nothing is published while nobody listens', () => {
  expect(NAMES.filter((name) => CHANNELS[name].hasSubscribers)).toEqual([])
})
