import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { InvalidOptionError } from '../../src/core/errors.ts'
import type { Publisher } from '../../src/core/spi/index.ts'
import { natsPublisher } from '../../src/publishers/nats.ts'
import { rabbitmqPublisher } from '../../src/publishers/rabbitmq/index.ts'
import { PublisherFixture } from '../../src/testing/suites/publisher-fixture.ts'
import { ALL_PUBLISHERS } from './all.ts'

const PUBLISHERS = Object.entries(ALL_PUBLISHERS)
const OPTIONS = PUBLISHERS.flatMap(([name, { options }]) =>
  Object.entries(options).map(([option, kind]) => ({ name, option, kind })),
)

const refusalOf = (make: () => Publisher): unknown => {
  try {
    make()
  } catch (error) {
    return error
  }
  return null
}

describe('options of publishers', () => {
  it.each(OPTIONS)('$name: $option is refused when it is null', ({ name, option, kind }) => {
    const { make, needed } = ALL_PUBLISHERS[name] as (typeof ALL_PUBLISHERS)[string]
    const refusal = refusalOf(() => make({ ...needed, [option]: null }))
    expect(refusal).toBeInstanceOf(InvalidOptionError)
    expect(refusal).toMatchObject({ detail: { option, value: null } })
    const expected = kind === 'needed' ? /null/ : /must not be null; leave it out for the default/
    expect(String(refusal)).toMatch(expected)
  })

  it.each(OPTIONS.filter(({ kind }) => kind === 'optional'))(
    '$name: $option may be undefined, as if it were left out',
    async ({ name, option }) => {
      const { make, needed } = ALL_PUBLISHERS[name] as (typeof ALL_PUBLISHERS)[string]
      await make({ ...needed, [option]: undefined }).close?.()
    },
  )

  it.each([[[]], [''], [' '], [5], [{}], [['nats://127.0.0.1', '']], [[5]]])(
    'nats: servers cannot be %j',
    (servers) => {
      const refusal = refusalOf(() => natsPublisher({ servers: servers as never }))
      expect(refusal).toBeInstanceOf(InvalidOptionError)
      expect(refusal).toMatchObject({ detail: { option: 'servers' } })
    },
  )

  it.each([
    ['kafka', 'sasl', [{ mechanism: 'PLAIN' }], ['PLAIN:hush', true, 5, ['hush']]],
    ['kafka', 'tls', [true, false, {}], ['hush', 1, ['hush']]],
    ['nats', 'connection', [{}], ['hush', true, ['hush']]],
    ['rabbitmq', 'connection', [{}], ['hush', true, ['hush']]],
  ])('%s: %s must be an object, and a text is not shown', async (name, option, good, bad) => {
    const { make, needed } = ALL_PUBLISHERS[name] as (typeof ALL_PUBLISHERS)[string]
    for (const value of good) await make({ ...needed, [option]: value }).close?.()
    for (const value of bad) {
      const refusal = refusalOf(() => make({ ...needed, [option]: value }))
      expect(refusal).toBeInstanceOf(InvalidOptionError)
      expect(refusal).toMatchObject({ detail: { option } })
      expect(inspect(refusal)).toMatch(/must be .*an object, not/)
      expect(inspect(refusal)).not.toContain('hush')
    }
  })

  it.each(['source', 'exchange'])('rabbitmq: %s has no more bytes than AMQP takes', async (option) => {
    const make = (value: string) => rabbitmqPublisher({ url: 'amqp://127.0.0.1:1', [option]: value })
    await make(`${'ü'.repeat(127)}x`).close?.()
    const refusal = refusalOf(() => make('ü'.repeat(128)))
    expect(refusal).toBeInstanceOf(InvalidOptionError)
    expect(refusal).toMatchObject({ detail: { option } })
  })
})

describe('a publisher that another outbox has closed', () => {
  const t = new PublisherFixture({ topic: 'orders' } as never)

  it.each(PUBLISHERS)('%s: costs events nothing, and says what to do', async (_name, { make, needed }) => {
    const publisher = make(needed)
    await publisher.close?.()
    const [result] = await t.send(publisher, [t.delivery()])
    expect(t.verdict(result)).toBe('outage')
    const { error } = result as { readonly error: unknown }
    expect(error).toMatchObject({ code: 'POSTHASTE_CLOSED' })
    expect(String(error)).toContain('a publisher belongs to one outbox')
  })
})
