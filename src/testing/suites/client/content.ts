import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import type { ClientFixture, ClientTopic } from '../client-fixture.ts'

/** Whatever somebody between us and the table could take for something else. */
const AWKWARD = [
  'é ü ß 漢字 🏴‍☠️ \u2028\u2029 \ufeff',
  `' " \` '' \\ \\' \\\\ \n\r\t \b`,
  '? ?? \\? $1 $2::text {x} :name :1 @p1 %s {0} -- /* */ ; #',
  'NULL null undefined \u0001\u001f\u007f',
]

const LARGEST = 900_000

const roundTrip = async (t: ClientFixture, payload: unknown, more: object = {}): Promise<unknown> => {
  const id = await t.outbox.transaction((tx) => t.publish(tx, 'content', { payload, ...more }))
  await t.until('delivery', () => t.heard.some((one) => one.id === id))
  // Again from the table, because the hot way does not read it.
  const stored = await t.outbox.inspect.event(id)
  assert.ok(stored, 'the event is stored')
  const { data } = stored.event
  const heard = t.heard.find((one) => one.id === id)?.payload
  if (payload instanceof Uint8Array) assert.deepEqual(Buffer.from(heard as Uint8Array), Buffer.from(payload))
  else assert.deepEqual(heard, payload)
  return data
}

export const contentTopic: ClientTopic = {
  title: 'what is stored',
  cases: {
    'texts arrive byte by byte, whatever they look like': async (t) => {
      for (const text of AWKWARD) {
        const payload = { [text]: text }
        assert.equal(await roundTrip(t, payload), JSON.stringify(payload))
      }
    },

    'JSON that somebody else made is not written anew': async (t) => {
      const json = '{ "b" : 1.0,"a":[ 1e2, "\\u00e9" ],  "b" : 2 }'
      const id = await t.outbox.transaction((tx) => t.outbox.publish(tx, { type: 'json', json }))
      assert.equal((await t.outbox.inspect.event(id))?.event.data, json)
    },

    'bytes arrive byte by byte': async (t) => {
      const bytes = Uint8Array.from({ length: 512 }, (_, n) => n % 256)
      // A part of something larger, as drivers hand them out.
      for (const payload of [
        bytes,
        bytes.subarray(39, 100),
        Buffer.from([0, 39, 92, 63, 36, 49]),
        new Uint8Array(0),
      ]) {
        const data = await roundTrip(t, payload, { contentType: 'application/octet-stream' })
        assert.deepEqual(Buffer.from(data as Uint8Array), Buffer.from(payload))
      }
    },

    'large ones': async (t) => {
      const payload = 'ü'.repeat(LARGEST / 2)
      assert.equal(await roundTrip(t, payload), JSON.stringify(payload))
      const bytes = new Uint8Array(LARGEST).fill(255)
      const data = await roundTrip(t, bytes, { contentType: 'application/octet-stream' })
      assert.equal(Buffer.compare(Buffer.from(data as Uint8Array), bytes), 0)
    },

    'awkward names, keys and headers': async (t) => {
      for (const text of AWKWARD.slice(0, 3)) {
        const key = text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]/gu, ' ')
        const draft = { type: 'named', payload: 1, key, tenantId: key, headers: { note: 'a b?$1' } }
        const id = await t.outbox.transaction((tx) => t.outbox.publish(tx, draft))
        const event = (await t.outbox.inspect.event(id))?.event
        assert.deepEqual([event?.key, event?.tenantId, { ...event?.headers }], [key, key, { note: 'a b?$1' }])
      }
    },

    'many at once, in the order given': async (t) => {
      const types = Array.from({ length: 250 }, (_, n) => `m${n}`)
      const drafts = types.map((type, n) => ({ type, payload: { n }, ...(n % 2 === 0 ? { key: 'k' } : {}) }))
      const ids = await t.outbox.transaction((tx) => t.outbox.publishMany(tx, drafts))
      assert.equal(new Set(ids).size, types.length)
      await t.settled()
      const even = (type: string): boolean => Number(type.slice(1)) % 2 === 0
      assert.deepEqual(t.types.filter(even), types.filter(even))
      assert.deepEqual(t.types.toSorted(), types.toSorted())
      assert.deepEqual(await t.stored(), types)
    },

    'an idempotency key publishes once, in one transaction and in the next, and says the first id': async (
      t,
    ) => {
      const publish = (tx: unknown): Promise<string> => t.publish(tx, 'e1', { idempotencyKey: 'k?$1' })
      const ids = await t.outbox.transaction(async (tx) => {
        await t.harness.write(tx, 1)
        return [await publish(tx), await publish(tx)]
      })
      const later = await t.outbox.transaction(publish)
      assert.deepEqual([ids[1], later], [ids[0], ids[0]])
      const many = await t.outbox.transaction((tx) =>
        t.outbox.publishMany(tx, [
          { type: 'e1', payload: 1, idempotencyKey: 'k?$1' },
          { type: 'e1', payload: 1, idempotencyKey: 'other' },
        ]),
      )
      assert.equal(many[0], ids[0])
      await t.settled()
      assert.deepEqual(t.types, ['e1', 'e1'])
    },

    'an idempotency key of a transaction that was rolled back is free': async (t) => {
      const publish = (tx: unknown): Promise<string> => t.publish(tx, 'e1', { idempotencyKey: 'k' })
      const undone = t.outbox.transaction(async (tx) => {
        await publish(tx)
        throw new Error('no')
      })
      await assert.rejects(undone)
      await t.outbox.transaction(async (tx) => {
        await t.harness.write(tx, 1)
        await publish(tx)
      })
      await t.expectOnly(1)
    },
  },
}
