/** Events that the server refuses after publish() has returned: who hears of it, and that nothing is left behind. */
import { describe, expect, it } from 'vitest'
import { draft, here, ID, open, rows, setUp, stored, worksAgain, write } from './with-commit-words.ts'

setUp()

describe('a publish that the server refuses', () => {
  const twice = async (): Promise<Awaited<ReturnType<typeof open>>> => {
    const opened = await open()
    await opened.outbox.transaction((tx) => opened.outbox.publish(tx, draft({ id: ID })))
    return opened
  }
  const refused = { name: 'StoreError', detail: { sqlState: '23505' } }

  it('ends the transaction with its own error when that is committed', async () => {
    const { outbox } = await twice()
    const failing = outbox.transaction(async (tx) => {
      await write(tx)
      await outbox.publish(tx, draft({ id: ID }))
    })
    await expect(failing).rejects.toMatchObject(refused)
    expect([await rows(), await stored()]).toEqual([0, 1])
    await worksAgain(outbox)
  })

  it('is the error of the statement behind it, and of the transaction even if nobody listens', async () => {
    const { outbox } = await twice()
    const heard: unknown[] = []
    const failing = outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft({ id: ID }))
      await write(tx).catch((error: unknown) => heard.push(error))
    })
    await expect(failing).rejects.toMatchObject(refused)
    expect(heard).toMatchObject([refused])
    expect([await rows(), await stored()]).toEqual([0, 1])
    await worksAgain(outbox)
  })

  it('is the error of the publish behind it', async () => {
    const { outbox } = await twice()
    const failing = outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft({ id: ID }))
      await outbox.publish(tx, draft())
    })
    await expect(failing).rejects.toMatchObject(refused)
    expect(await stored()).toBe(1)
  })

  it('in a nested transaction ends that, and not the outer one', async () => {
    const { outbox } = await twice()
    await outbox.transaction(async (tx) => {
      await write(tx)
      const nested = outbox.transaction((inner) => outbox.publish(inner, draft({ id: ID })))
      await expect(nested).rejects.toMatchObject(refused)
      await outbox.publish(tx, draft())
    })
    expect([await rows(), await stored()]).toEqual([1, 2])
  })

  it('before a nested one keeps it from beginning', async () => {
    const { outbox } = await twice()
    let began = false
    const failing = outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft({ id: ID }))
      await outbox
        .transaction(async () => {
          began = true
        })
        .catch(() => undefined)
    })
    await expect(failing).rejects.toMatchObject(refused)
    expect(began).toBe(false)
    await worksAgain(outbox)
  })

  it('does so while nobody awaits what was sent behind it, and the outer one goes on', async () => {
    const { outbox } = await twice()
    await outbox.transaction(async (tx) => {
      const nested = outbox.transaction(async (inner) => {
        await outbox.publish(inner, draft({ id: ID }))
        // It takes the event along, and nobody waits for either.
        write(inner).catch(() => undefined)
        throw new Error('not this')
      })
      await expect(nested).rejects.toThrow('not this')
      await outbox.publish(tx, draft())
    })
    expect([await rows(), await stored()]).toEqual([0, 2])
  })

  it('is why a nested one does not begin, also when it was sent before', async () => {
    const { outbox } = await twice()
    const failing = outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft({ id: ID }))
      write(tx).catch(() => undefined)
      await outbox.transaction(() => undefined)
    })
    await expect(failing).rejects.toMatchObject(refused)
    await worksAgain(outbox)
  })

  it('on its first use of a connection leaves that as it should be', async () => {
    const { outbox } = await open()
    await here.world.hand.query(
      `ALTER TABLE "${here.world.schema}".events ADD CONSTRAINT no_such CHECK (type <> 'refused')`,
    )
    const failing = outbox.transaction((tx) => outbox.publish(tx, draft({ type: 'refused' })))
    await expect(failing).rejects.toMatchObject({ name: 'StoreError', detail: { sqlState: '23514' } })
    await worksAgain(outbox)
    await outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft())
      await write(tx)
    })
    expect(await stored()).toBe(2)
  })

  it('because the transaction had failed before says that', async () => {
    const { outbox } = await open()
    const failing = outbox.transaction(async (tx) => {
      await tx.query('SELECT 1/0').catch(() => undefined)
      await outbox.publish(tx, draft())
    })
    await expect(failing).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    expect(await stored()).toBe(0)
    await worksAgain(outbox)
  })
})
