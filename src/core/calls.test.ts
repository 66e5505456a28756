/** What the calls of an outbox refuse, each before anything happens. */
import { describe, expect, it } from 'vitest'
import { createTestOutbox } from '../testing/index.ts'

const refused = (text: string) =>
  expect.objectContaining({ code: 'POSTHASTE_INVALID_OPTION', message: expect.stringContaining(text) })

describe('a call of an outbox', () => {
  it.each([
    ['stop', { drainMS: 5 }, 'stop does not know "drainMS"; did you mean "drainMs"?'],
    ['stop', { drainMs: -1 }, 'drainMs must be a whole number from 0 to 600000, not -1'],
    ['stop', 5, 'stop must be an object with any of drainMs; not number'],
    ['stop', null, 'stop must be an object'],
    ['flush', { timeout: 5 }, 'flush does not know "timeout"; did you mean "timeoutMs"?'],
    ['flush', { timeoutMs: 0 }, 'timeoutMs must be a whole number from 1 to 3600000, not 0'],
    ['flush', null, 'flush must be an object'],
    ['fetch', { limits: 5 }, 'fetch does not know "limits"; did you mean "limit"?'],
    ['fetch', { limit: 0 }, 'limit must be a whole number from 1 to 10000, not 0'],
    ['fetch', { destination: 5 }, 'destination must be text, not 5'],
    ['fetch', null, 'fetch must be an object'],
    ['transaction', undefined, 'transaction must be given a function'],
    ['transaction', {}, 'transaction must be given a function'],
  ] as const)('%s(%j) is refused', async (method, given, text) => {
    await using made = createTestOutbox({ destinations: { d: { events: ['*'] } } })
    const call = made.outbox[method] as (given: unknown) => Promise<unknown>
    // Undefined is what the defaults are for, except where something is needed.
    await expect(call(given)).rejects.toThrow(refused(text))
  })

  it('via() is refused without the transactions of a library', async () => {
    await using made = createTestOutbox()
    for (const given of [undefined, null, {}, { run: () => undefined }]) {
      expect(() => made.outbox.via(given as never)).toThrow(
        refused('transactions must be the transactions of a data-access library, made by a client'),
      )
    }
  })
})
