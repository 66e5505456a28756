import assert from 'node:assert/strict'
import { idsOf, LONG_MS, type Topic } from '../store-fixture.ts'

/** Text that a database with a JSON type of its own would rewrite. */
const AWKWARD_JSON =
  '{"z":1,"a":{"b":2,"a":1}, "dup":1,"dup":2,"big":12345678901234567890.10,"e":1.0E+2,' +
  '"text":"π 漢 🚀 \\u0041 \\/ \\" \u2028","empty":"","__proto__":{"x":1} }'

export const insertTopic: Topic = {
  title: 'insert',
  cases: {
    'an event comes back with everything it was given': async (t) => {
      const given = await t.publish({
        type: 'invoice.sent',
        version: 7,
        key: 'customer-1',
        aggregateType: 'invoice',
        aggregateId: 'i-1',
        tenantId: 'acme',
        headers: { traceparent: '00-ab-cd-01', 'x-empty': '' },
        contentType: 'application/json',
        occurredAtMs: 1_699_999_999_999,
        lane: 63,
      })
      const row = await t.readOne(given)
      const { event } = row
      assert.ok(event)
      const { createdAtMs, ...rest } = event
      const { createdAtMs: _mine, routesVersion: _version, idempotencyKey: _key, ...expected } = given.event
      assert.deepEqual({ ...rest, headers: { ...rest.headers } }, expected)
      assert.ok(Number.isFinite(createdAtMs))
      assert.equal(row.problem, null)
      assert.equal(row.lane, 63)
      assert.equal(row.key, 'customer-1')
    },

    'a new delivery is the first run, pending, with nothing spent': async (t) => {
      const row = await t.readOne(await t.publish())
      assert.equal(row.status, 'pending')
      assert.equal(row.run, 1)
      assert.equal(row.attempts, 0)
      assert.equal(row.suspicions, 0)
      assert.equal(row.token, null)
      assert.equal(row.holdsKey, false)
      assert.equal(row.behind, false)
    },

    'JSON text comes back byte for byte, with its key order, spacing and numbers': async (t) => {
      const row = await t.readOne(await t.publish({ data: AWKWARD_JSON }))
      assert.equal(row.event?.data, AWKWARD_JSON)
      assert.equal(row.size, Buffer.byteLength(AWKWARD_JSON))
    },

    'bytes of another content type come back byte for byte': async (t) => {
      const data = Uint8Array.from({ length: 512 }, (_, i) => i % 256)
      const row = await t.readOne(await t.publish({ data, contentType: 'application/x-protobuf' }))
      const back = row.event!.data
      assert.ok(back instanceof Uint8Array)
      assert.deepEqual([...back], [...data])
      assert.equal(row.event!.contentType, 'application/x-protobuf')
    },

    'a payload without any bytes is not the same as no payload': async (t) => {
      const row = await t.readOne(await t.publish({ data: new Uint8Array(0), contentType: 'text/plain' }))
      assert.ok(row.event)
      assert.equal(row.event.data.length, 0)
      assert.equal(row.size, 0)
    },

    'a payload of one mebibyte survives': async (t) => {
      const data = JSON.stringify('é'.repeat(524_287))
      const row = await t.readOne(await t.publish({ data }))
      assert.ok(row.event?.data === data)
    },

    'headers survive whatever their names and values': async (t) => {
      const headers = JSON.parse(
        '{"__proto__":"p","constructor":"c","ключ":"значение","q":"\\"\\\\\'"}',
      ) as Record<string, string>
      const row = await t.readOne(await t.publish({ headers }))
      assert.deepEqual(Object.entries(row.event!.headers).sort(), Object.entries(headers).sort())
    },

    'keys and types are compared byte for byte, not by a collation': async (t) => {
      const me = await t.worker()
      const head = await t.publish({ key: 'Key' })
      await t.retry(head, me.right)
      const others = [
        await t.publish({ key: 'key' }),
        await t.publish({ key: 'Key ' }),
        await t.publish({ key: 'Kéy' }),
      ]
      for (const other of others) assert.equal((await t.readOne(other)).behind, false)
    },

    'an event with several deliveries is stored once and delivered to each': async (t) => {
      const event = t.event()
      const deliveries = ['alpha', 'beta'].map((destination) => t.delivery(event, { destination }))
      await t.insert({ events: [event], deliveries })
      const [alpha, beta] = [await t.read(), await t.read({ destination: 'beta' })]
      assert.deepEqual(
        alpha.fresh.map((row) => row.event?.id),
        [event.id],
      )
      assert.deepEqual(
        beta.fresh.map((row) => row.event?.id),
        [event.id],
      )
      assert.equal(alpha.fresh[0]!.seq, beta.fresh[0]!.seq)
      assert.equal((await t.store.inspection.event(event.id))?.deliveries.length, 2)
    },

    'the events of one call keep their order': async (t) => {
      const all = Array.from({ length: 900 }, () => t.prepare())
      await t.insert({ events: all.map((one) => one.event), deliveries: all.map((one) => one.delivery) })
      const { fresh } = await t.read()
      assert.deepEqual(
        fresh.map((row) => row.id),
        idsOf(all),
      )
      for (let i = 1; i < fresh.length; i++) assert.ok(fresh[i]!.seq > fresh[i - 1]!.seq)
    },

    'an event without deliveries is stored': async (t) => {
      const event = t.event()
      await t.insert({ events: [event] })
      assert.deepEqual((await t.store.inspection.event(event.id))?.deliveries, [])
    },

    'a hot delivery is left alone while its claim lives': async (t) => {
      const hot = await t.publish({ token: t.newId() })
      const cold = await t.publish()
      const { fresh, nextDueInMs } = await t.read()
      assert.deepEqual(
        fresh.map((row) => row.id),
        [cold.delivery.id],
      )
      assert.ok(nextDueInMs !== null && nextDueInMs > 0 && nextDueInMs <= LONG_MS)
      assert.equal(await t.status(hot), 'pending')
    },

    'a hot delivery is read when its claim ran out, and still carries its token': async (t) => {
      const token = t.newId()
      const hot = await t.publish({ token, hotLeaseMs: 20 })
      await t.until(20, 'the claim has run out', async () =>
        (await t.readableIds()).includes(hot.delivery.id),
      )
      assert.equal((await t.readOne(hot)).token, token)
    },

    'a time that has passed already means at once': async (t) => {
      const row = await t.readOne(await t.publish({ due: { atMs: 1_000 } }))
      assert.equal(row.status, 'pending')
    },
  },
}
