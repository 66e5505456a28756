import assert from 'node:assert/strict'
import type { PublisherTopic } from '../publisher-fixture.ts'

export const endingsTopic: PublisherTopic = {
  title: 'the end',
  cases: {
    'closing waits for what is under way': async (t) => {
      const publisher = t.open()
      const sending = t.send(publisher, [t.delivery({ data: '1' })])
      await publisher.close?.()
      const [result] = await sending
      if (result?.ok === true) assert.equal((await t.harness.received(1)).length, 1)
      else assert.equal(t.verdict(result), 'outage', 'or it says that it was not sent')
    },

    'closing twice, and without ever having sent': async (t) => {
      const publisher = t.open()
      await publisher.close?.()
      await publisher.close?.()
    },

    'a send after the end is refused, and says so': async (t) => {
      const publisher = t.open()
      await t.sends(publisher, [t.delivery()])
      await publisher.close?.()
      const [result] = await t.send(publisher, [t.delivery()])
      assert.equal(result?.ok, false)
      const error = (result as { readonly error: { readonly code?: unknown } }).error
      assert.equal(error.code, 'POSTHASTE_CLOSED')
    },
  },
}
