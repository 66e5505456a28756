/** Options that a client does not know, or that are of another kind: nobody would notice that they do nothing. */
import { describe, expect, it } from 'vitest'
import { mikroOrmTransactions } from '../../src/clients/mikro-orm.ts'
import { prismaTransactions } from '../../src/clients/prisma.ts'
import { sequelizeTransactions } from '../../src/clients/sequelize.ts'
import { typeormTransactions } from '../../src/clients/typeorm.ts'

/** As many methods as are asked for when a client is made; nothing is called but what watches. */
const HANDLES = {
  mikroOrmTransactions: {
    em: {
      transactional: () => undefined,
      getEventManager: () => ({ registerSubscriber: () => undefined }),
      getTransactionContext: () => undefined,
    },
  },
  prismaTransactions: { $transaction: () => undefined },
  sequelizeTransactions: {
    transaction: () => undefined,
    query: () => undefined,
    addHook: () => undefined,
  },
  typeormTransactions: { createQueryRunner: () => undefined, transaction: () => undefined, subscribers: [] },
} as const

type Name = keyof typeof HANDLES

const CLIENTS = {
  mikroOrmTransactions,
  prismaTransactions,
  sequelizeTransactions,
  typeormTransactions,
} as unknown as Readonly<Record<Name, (handle: unknown, options?: unknown) => object>>

const make = (name: Name, options: unknown): object => CLIENTS[name](HANDLES[name], options)

describe('options of a client', () => {
  it.each<[Name, unknown, string]>([
    [
      'typeormTransactions',
      { captur: true },
      'typeormTransactions does not know "captur"; did you mean "capture"?',
    ],
    ['typeormTransactions', { capture: 'yes' }, 'capture must be true or false, not the string "yes"'],
    ['typeormTransactions', null, 'typeormTransactions must be an object with any of capture; not null'],
    [
      'mikroOrmTransactions',
      { captures: true },
      'mikroOrmTransactions does not know "captures"; did you mean "capture"?',
    ],
    ['mikroOrmTransactions', { capture: 1 }, 'capture must be true or false, not 1'],
    [
      'prismaTransactions',
      { timout: 1 },
      'prismaTransactions does not know "timout"; did you mean "timeout"?',
    ],
    [
      'prismaTransactions',
      { timeout: 'x' },
      'timeout must be a number of 0 or more, in ms, not the string "x"',
    ],
    ['prismaTransactions', { maxWait: -1 }, 'maxWait must be a number of 0 or more, in ms, not -1'],
    ['prismaTransactions', { timeout: Number.NaN }, 'timeout must be a number of 0 or more, in ms, not NaN'],
    [
      'sequelizeTransactions',
      { capture: true },
      'sequelizeTransactions takes no options; events of models are published with outbox.track(model)',
    ],
  ])('%s refuses %j', (name, options, message) => {
    expect(() => make(name, options)).toThrow(
      expect.objectContaining({ code: 'POSTHASTE_INVALID_OPTION', message }),
    )
  })

  it.each<[Name, unknown]>([
    ['typeormTransactions', undefined],
    ['typeormTransactions', { capture: undefined }],
    ['typeormTransactions', { capture: true }],
    ['mikroOrmTransactions', { capture: true }],
    // The last one is not ours, but Prisma's.
    ['prismaTransactions', { timeout: 1, maxWait: 0, isolationLevel: 'Serializable' }],
    ['sequelizeTransactions', undefined],
  ])('%s takes %j', (name, options) => {
    expect(make(name, options)).toHaveProperty('run')
  })
})
