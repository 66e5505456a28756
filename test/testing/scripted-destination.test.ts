import { describe, expect, it } from 'vitest'
import { defineEvent, isOutageError, isPermanentError, type OutgoingDelivery } from '../../src/index.ts'
import { createFakeRuntime, failingDestination, recordingDestination } from '../../src/testing/index.ts'

let counter = 0
const delivery = (type = 'a', id = `event-${counter++}`): OutgoingDelivery => ({
  deliveryId: `delivery-of-${id}`,
  event: {
    id,
    type,
    version: 1,
    key: null,
    aggregateType: null,
    aggregateId: null,
    tenantId: null,
    headers: {},
    contentType: 'application/json',
    data: '{}',
    size: 2,
    occurredAtMs: 0,
    createdAtMs: 0,
    replacesId: null,
  },
  attempt: 1,
  run: 1,
  deduplicationId: id,
  topic: type,
})
const idle = { signal: new AbortController().signal }

describe('a scripted destination', () => {
  it('only remembers when nothing is scripted to fail', async () => {
    const place = recordingDestination({ maxBatch: 2 })
    const batch = [delivery(), delivery()]
    expect(await place.send(batch, idle)).toEqual([{ ok: true }, { ok: true }])
    expect(place.accepted).toEqual(batch)
    expect(place.sends).toEqual([batch])
    await place.close?.()
    expect(place.closed).toBe(true)
  })

  it('fails each event n times', async () => {
    const place = failingDestination({ times: 1 })
    const [one, two] = [delivery(), delivery()]
    expect(await place.send([one], idle)).toMatchObject([{ ok: false }])
    expect(await place.send([two], idle)).toMatchObject([{ ok: false }])
    expect(await place.send([one], idle)).toEqual([{ ok: true }])
    expect(place.received).toEqual([one, two, one])
    expect(place.accepted).toEqual([one])
  })

  it('fails n times in all', async () => {
    const place = failingDestination({ times: 1, per: 'all' })
    expect(await place.send([delivery()], idle)).toMatchObject([{ ok: false }])
    expect(await place.send([delivery()], idle)).toEqual([{ ok: true }])
  })

  it('fails by event: definition, pattern or function', async () => {
    const a = defineEvent('a')
    for (const events of [a, 'a', [a, 'b.*'], (it: OutgoingDelivery) => it.event.type !== 'c'] as const) {
      const place = failingDestination({ events })
      expect(await place.send([delivery('a')], idle)).toMatchObject([{ ok: false }])
      expect(await place.send([delivery('c')], idle)).toEqual([{ ok: true }])
    }
  })

  it('fails in the way that was asked for', async () => {
    const error = async (fail: Parameters<typeof failingDestination>[0]) => {
      const [result] = await failingDestination(fail).send([delivery()], idle)
      return result?.ok === false ? result.error : undefined
    }
    expect(isPermanentError(await error({ fail: 'permanent' }))).toBe(true)
    expect(isOutageError(await error({ fail: 'outage' }))).toBe(true)
    expect(await error({ fail: () => 'own' })).toBe('own')
    expect(await error({ fail: () => undefined })).toBeUndefined()
  })

  it('loses the reply to what it accepted', async () => {
    const place = failingDestination({ fail: 'lostReply', times: 1 })
    const one = delivery()
    expect(await place.send([one], idle)).toMatchObject([{ ok: false }])
    expect(await place.send([one], idle)).toEqual([{ ok: true }])
    expect(place.accepted).toEqual([one, one])
  })

  it('hangs until it is released, or aborted', async () => {
    const place = failingDestination({ fail: 'hang' })
    const abort = new AbortController()
    const [released, aborted] = [
      place.send([delivery()], idle),
      place.send([delivery()], { signal: abort.signal }),
    ]
    await place.waitForReceived(2)
    abort.abort('enough')
    expect(await aborted).toEqual([{ ok: false, error: 'enough' }])
    place.release()
    expect(await released).toEqual([{ ok: true }])
    expect(await place.send([delivery()], idle)).toEqual([{ ok: true }])
  })

  it('is slow by the clock that it is given', async () => {
    const runtime = createFakeRuntime()
    const place = recordingDestination({ runtime, slowMs: 1_000 })
    const sent = place.send([delivery()], idle)
    await runtime.advance(999)
    expect(place.accepted).toEqual([])
    await runtime.advance(1)
    expect(await sent).toEqual([{ ok: true }])
  })

  it('accepts only a prefix when it keeps the order', async () => {
    const bad = delivery('bad')
    const place = failingDestination({ events: 'bad', maxBatch: 3, orderedPrefix: true })
    const results = await place.send([delivery('a'), bad, delivery('a')], idle)
    expect(results.map(({ ok }) => ok)).toEqual([true, false, false])
    place.script({ fail: 'never' })
    expect(await place.send([bad], idle)).toEqual([{ ok: true }])
  })
})
