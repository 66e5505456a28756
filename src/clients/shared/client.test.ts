import { describe, expect, it } from 'vitest'
import { clientOf } from './client.ts'
import type { PgClient } from './pg-client.ts'

/** A library that takes a COMMIT which is answered with ROLLBACK for success, as most do. */
const create = (pgClient: PgClient, isWell: boolean) => {
  const sent: string[] = []
  const client = clientOf<object>({
    name: 'library',
    run: (fn) => fn({}),
    send: async (_, sql) => {
      sent.push(sql)
      if (!isWell) throw Object.assign(new Error('current transaction is aborted'), { code: '25P02' })
      return []
    },
    inTransaction: () => true,
    pgClient: () => pgClient,
  })
  return { sent, commit: () => client.run(async () => 'done') }
}

describe('before a commit through node-postgres', () => {
  const status = (text: string, readyForQuery: boolean): PgClient => ({
    getTransactionStatus: () => text,
    readyForQuery,
  })
  const old: PgClient = { readyForQuery: true }

  it('the status is enough when the server has answered everything', async () => {
    const { sent, commit } = create(status('T', true), true)
    expect(await commit()).toBe('done')
    expect(sent).toEqual([])
    await expect(create(status('E', true), false).commit()).rejects.toMatchObject({
      code: 'POSTHASTE_COMMIT_ROLLED_BACK',
    })
  })

  it('one that was ended by hand is over', async () => {
    const { sent, commit } = create(status('I', true), true)
    await expect(commit()).rejects.toMatchObject({ code: 'POSTHASTE_NO_TRANSACTION' })
    expect(sent).toEqual([])
  })

  it('the database is asked of one that begins just now', async () => {
    const { sent, commit } = create(status('I', false), true)
    expect(await commit()).toBe('done')
    expect(sent.length).toBe(2)
  })

  it('the database is asked when an error has come and what is left of the transaction has not', async () => {
    await expect(create(status('T', false), false).commit()).rejects.toMatchObject({
      code: 'POSTHASTE_COMMIT_ROLLED_BACK',
    })
    const { sent, commit } = create(status('T', false), true)
    expect(await commit()).toBe('done')
    expect(sent.length).toBe(2)
  })

  it('the database is asked of one that keeps no status', async () => {
    await expect(create(old, false).commit()).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    const { sent, commit } = create(old, true)
    expect(await commit()).toBe('done')
    expect(sent.length).toBe(2)
  })
})

describe('a Proxy', () => {
  const proxy = (): object => new Proxy({}, {})

  it('is a handle where the library itself gave it, and refused where it did not', async () => {
    const client = clientOf<object>({
      name: 'library',
      run: (fn) => fn(proxy()),
      nested: (_, fn) => fn(proxy()),
      send: async () => [],
      inTransaction: () => true,
    })
    await client.run(async (tx) => {
      expect(client.standsFor?.(tx)).toBe(tx)
      await client.nested?.(tx, async (inner) => void expect(client.standsFor?.(inner)).toBe(inner))
    })
    const refusal = { code: 'POSTHASTE_UNSUPPORTED', message: expect.stringContaining('txHost.tx') }
    expect(() => client.standsFor?.(proxy())).toThrow(expect.objectContaining(refusal))
  })
})
