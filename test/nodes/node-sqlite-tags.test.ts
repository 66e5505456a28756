/** node:sqlite has a second way to send statements, by tagged templates, which would send COMMIT and ROLLBACK unseen. */
import { DatabaseSync } from 'node:sqlite'
import { expect, it, onTestFinished } from 'vitest'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { testContext } from '../stores/sqlite-files.ts'

it('the handle of a transaction has no tagged templates', async () => {
  const database = new DatabaseSync(':memory:')
  const store = sqliteStore({ database })
  await store.open(testContext())
  onTestFinished(async () => {
    await store.close()
    database.close()
  })
  expect(database).toHaveProperty('createTagStore')
  await store.transactions.run(async (tx) => {
    const { createTagStore } = tx as unknown as { createTagStore(): unknown }
    expect(() => createTagStore()).toThrow(
      expect.objectContaining({
        code: 'POSTHASTE_CONFLICT',
        message: expect.stringContaining('use prepare()'),
      }),
    )
  })
})
