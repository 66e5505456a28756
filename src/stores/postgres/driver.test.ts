import { describe, expect, it } from 'vitest'
import { ask, type PostgresAnswer, type PostgresConnection } from './driver.ts'

type Callback = (error: Error | null, answer: PostgresAnswer) => void

const connectionWith = (query: (callback: Callback) => unknown): PostgresConnection =>
  ({
    query: (_query: unknown, _values: undefined, callback: Callback) => query(callback),
  }) as unknown as PostgresConnection

const answer = { rows: [], command: 'SELECT' }

describe('a query', () => {
  it('is asked by a promise where callbacks are not known', async () => {
    const wrapped = { query: async (...given: unknown[]) => ({ rows: given, command: 'SELECT' }) }
    const query = { text: 'SELECT' }
    expect(await ask(wrapped as unknown as PostgresConnection, query)).toMatchObject({ rows: [query] })
  })
})

describe('a query that is asked by a callback', () => {
  it('answers what the callback got', async () => {
    const fine = connectionWith((callback) => queueMicrotask(() => callback(null, answer)))
    expect(await ask(fine, { text: 'SELECT' })).toBe(answer)
    const failing = connectionWith((callback) => callback(new Error('refused'), answer))
    await expect(ask(failing, { text: 'SELECT' })).rejects.toThrow('refused')
  })

  it('fails with an asynchronous function around it that fails', async () => {
    const patched = connectionWith(async (callback) => {
      const logged = (await connectionWith(() => undefined).query({ text: '' }, undefined, callback)) as {
        rowCount: number
      }
      return logged.rowCount
    })
    await expect(ask(patched, { text: 'SELECT' })).rejects.toThrow(TypeError)
  })

  it('is answered through one that passes the callback on, and through one that does not', async () => {
    const passing = connectionWith(async (callback) => {
      setImmediate(() => callback(null, answer))
    })
    expect(await ask(passing, { text: 'SELECT' })).toBe(answer)
    expect(
      await ask(
        connectionWith(async () => answer),
        { text: 'SELECT' },
      ),
    ).toBe(answer)
  })
})
