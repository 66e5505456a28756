import { describe, expect, it } from 'vitest'
import type { DeliverTrace, PublishTrace, Tracing } from '../spi/index.ts'
import { carried, guardedTracing, withTrace } from './tracing.ts'

/** As somebody writes it who has no types to hold on to. */
const tracing = (publish: () => unknown, deliver: () => unknown): Tracing =>
  guardedTracing({ publish, deliver } as unknown as Tracing)

const made = { destination: 'd', kind: 'publisher', deliveries: [] } as const

describe('a tracing that is written by hand', () => {
  it.each([
    ['answers nothing', () => undefined],
    ['answers something else', () => 'a trace'],
    [
      'throws',
      () => {
        throw new Error('no trace today')
      },
    ],
  ])('that %s traces nothing', (_, answer) => {
    const { publish, deliver } = tracing(answer, answer)
    expect(publish([])).toBeNull()
    expect(deliver(made)).toBeNull()
  })

  it('that forgets the headers adds none, and everything is run once', () => {
    const { publish, deliver } = tracing(
      () => ({}),
      () => ({}),
    )
    const [published, delivered] = [publish([]) as PublishTrace, deliver(made) as DeliverTrace]
    published.end()
    expect(withTrace({ own: 'x' }, published.headers)).toEqual({ own: 'x' })
    expect(carried({ own: 'x' }, delivered.headers[0])).toEqual({ own: 'x' })
    let runs = 0
    delivered.run(() => {
      runs += 1
    })
    delivered.end([])
    expect(runs).toBe(1)
  })

  it('that gives something else than texts for headers has them left out', () => {
    const odd = { traceparent: 'a', flags: 1, state: null } as unknown as Record<string, string>
    expect(withTrace({}, odd)).toEqual({ traceparent: 'a' })
    expect(carried({ traceparent: 'b', kept: 'c' }, odd)).toEqual({ traceparent: 'a', kept: 'c' })
    expect(carried({ kept: 'c' }, null)).toEqual({ kept: 'c' })
  })
})
