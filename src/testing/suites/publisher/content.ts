import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { type PublisherTopic, text } from '../publisher-fixture.ts'

const ODD_JSON = '{ "b" : 1.0,"a":[ 1e2, "\\u00e9", "漢字 🏴‍☠️" ],  "b" : 2 }'
const TRACE = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

export const contentTopic: PublisherTopic = {
  title: 'what arrives',
  cases: {
    'JSON as it was stored, byte for byte': async (t) => {
      await t.sends(t.open(), [t.delivery({ data: ODD_JSON })])
      const message = await t.only()
      assert.equal(text(message), ODD_JSON)
      assert.equal(message.contentType, 'application/json')
    },

    'bytes as they were stored': async (t) => {
      const bytes = Uint8Array.from({ length: 600 }, (_, n) => n % 256)
      const contentType = 'application/x-protobuf'
      // A part of something larger, as drivers hand them out.
      await t.sends(t.open(), [t.delivery({ data: bytes.subarray(40, 556), contentType })])
      const message = await t.only()
      assert.deepEqual(Buffer.from(message.body), Buffer.from(bytes.subarray(40, 556)))
      assert.equal(message.contentType, contentType)
    },

    'nothing at all, too': async (t) => {
      const delivery = t.delivery({ data: new Uint8Array(0), contentType: 'application/octet-stream' })
      await t.sends(t.open(), [delivery])
      assert.equal((await t.only()).body.byteLength, 0)
    },

    'what is known of the event': async (t) => {
      const delivery = t.delivery({
        key: 'order-1',
        version: 3,
        tenantId: 'acme',
        aggregateType: 'order',
        aggregateId: '1',
        headers: { traceparent: TRACE, 'x-note': 'hello' },
      })
      await t.sends(t.open(), [delivery])
      const message = await t.only()
      const wanted = {
        'event-id': delivery.event.id,
        'event-type': 'order.placed',
        'event-version': '3',
        'event-time': '2023-11-14T22:13:20.123Z',
        'event-key': 'order-1',
        'event-tenant': 'acme',
        'event-aggregate-type': 'order',
        'event-aggregate-id': '1',
        'deduplication-id': delivery.event.id,
        traceparent: TRACE,
        'x-note': 'hello',
      }
      for (const [name, value] of Object.entries(wanted)) assert.equal(t.header(message, name), value, name)
      if (t.harness.keepsKey) assert.equal(message.key, 'order-1')
    },

    'a header of the application cannot pass for ours': async (t) => {
      const forged = { 'Event-Id': 'forged', 'event-tenant': 'forged', 'content-type': 'text/html' }
      const delivery = t.delivery({ headers: forged })
      await t.sends(t.open(), [delivery])
      const message = await t.only()
      assert.equal(t.header(message, 'event-id'), delivery.event.id)
      assert.equal(t.header(message, 'event-tenant'), undefined, 'also where the event has none')
      assert.equal(message.contentType, 'application/json')
    },

    'names and keys that are not ASCII': async (t) => {
      const [key, tenantId, note] = ['Bestellung № 7', 'Müller & Söhne', '100 % “漢字” 🏴‍☠️']
      await t.sends(t.open(), [t.delivery({ key, tenantId, headers: { note } })])
      const message = await t.only()
      const read = (name: string): string => {
        const value = t.header(message, name) ?? ''
        // Carriers with ASCII headers have them percent-encoded.
        return [key, tenantId, note].includes(value) ? value : decodeURIComponent(value)
      }
      assert.deepEqual([read('event-key'), read('event-tenant'), read('note')], [key, tenantId, note])
    },

    'a later run has an id of its own to be recognised by': async (t) => {
      const first = t.delivery()
      const again = t.delivery({ id: first.event.id, run: 2 })
      const publisher = t.open()
      await t.sends(publisher, [first])
      await t.sends(publisher, [again])
      const ids = (await t.harness.received(2)).map((message) => t.header(message, 'deduplication-id'))
      assert.deepEqual(ids, [first.event.id, `${first.event.id}:2`])
    },

    'CloudEvents as one document': async (t) => {
      const delivery = t.delivery({
        key: 'k',
        tenantId: 'acme',
        data: ODD_JSON,
        headers: { traceparent: TRACE },
      })
      await t.sends(t.open({ format: 'cloudevents' }), [delivery])
      const message = await t.only()
      assert.match(message.contentType ?? '', /^application\/cloudevents\+json/)
      assert.ok(text(message).includes(ODD_JSON), 'the payload is in it as it was stored')
      const { data, ...attributes } = JSON.parse(text(message)) as Record<string, unknown>
      assert.deepEqual(data, JSON.parse(ODD_JSON))
      assert.deepEqual(attributes, {
        specversion: '1.0',
        id: delivery.event.id,
        source: 'posthaste',
        type: 'order.placed',
        time: '2023-11-14T22:13:20.123Z',
        subject: 'k',
        partitionkey: 'k',
        eventid: delivery.event.id,
        eventversion: '1',
        tenantid: 'acme',
        traceparent: TRACE,
        datacontenttype: 'application/json',
      })
    },

    'CloudEvents as one document, of bytes': async (t) => {
      const data = Uint8Array.of(0, 255, 128)
      await t.sends(t.open({ format: 'cloudevents' }), [t.delivery({ data, contentType: 'image/x' })])
      const document = JSON.parse(text(await t.only())) as Record<string, unknown>
      assert.equal(document.data_base64, 'AP+A')
      assert.equal(document.datacontenttype, 'image/x')
      assert.equal('data' in document, false)
    },

    'CloudEvents with the payload as it is': async (t) => {
      const delivery = t.delivery({ data: ODD_JSON })
      await t.sends(t.open({ format: 'cloudevents-binary' }), [delivery])
      const message = await t.only()
      assert.equal(text(message), ODD_JSON)
      assert.equal(message.contentType, 'application/json')
      const values = Object.values(message.headers)
      for (const value of ['1.0', delivery.event.id, 'posthaste', 'order.placed'])
        assert.ok(values.includes(value), value)
    },
  },
}
