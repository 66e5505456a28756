/** Publishing beside a transaction host, without an application around it. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { defineEvent } from '../../src/index.ts'
import { joinAmbient } from '../../src/nestjs/ambient.ts'
import { createTestOutbox } from '../../src/testing/index.ts'

const nothingOpen = { tx: {}, isTransactionActive: () => false }

/** Its payloads are refused, but not at once. */
const refused = defineEvent('refused', {
  schema: {
    '~standard': { version: 1, vendor: 'test', validate: async () => ({ issues: [{ message: 'no' }] }) },
  },
})

/** Rejections that nobody heard; Node tells of them when it has nothing else to do. */
const unheard = (): (() => Promise<number>) => {
  let count = 0
  const hear = (): void => void count++
  process.on('unhandledRejection', hear)
  onTestFinished(() => void process.off('unhandledRejection', hear))
  return async () => {
    await new Promise(setImmediate)
    return count
  }
}

describe('an outbox that joins a transaction host', () => {
  it.each(['publish', 'publishMany'] as const)(
    'a %s that nobody awaits fails its transaction, and not the process',
    async (method) => {
      const outbox = joinAmbient(createTestOutbox().outbox, nothingOpen)
      const heard = unheard()
      const running = outbox.transaction(async () => {
        if (method === 'publish') void outbox.publish(refused({}))
        else void outbox.publishMany([refused({})])
      })
      await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_INVALID_EVENT' })
      expect(await heard()).toBe(0)
    },
  )

  it('says by rejecting, never by throwing, that two transactions are open', async () => {
    const outbox = joinAmbient(createTestOutbox().outbox, { tx: {}, isTransactionActive: () => true })
    await outbox.transaction(async () => {
      const conflict = { code: 'POSTHASTE_CONFLICT' }
      await expect(outbox.publish({ type: 'a', payload: 1 })).rejects.toMatchObject(conflict)
      await expect(outbox.publishMany([{ type: 'a', payload: 1 }])).rejects.toMatchObject(conflict)
    })
  })
})
