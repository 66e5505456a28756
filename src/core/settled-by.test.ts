import { describe, expect, it } from 'vitest'
import { hotToken } from './model/uuid.ts'
import { withSettlers } from './settled-by.ts'
import type { EventDetail, WorkerView } from './spi/index.ts'

const WORKER = '0198c3a4-0001-7000-8000-0123456789ab'
const TOKEN = hotToken('0198c3a4-0002-7123-9456-ba9876543210', WORKER)
const workers = [{ workerId: WORKER, name: 'web-1:4711' }] as unknown as readonly WorkerView[]

const settlerOf = (settledBy: string | null, known = workers) =>
  withSettlers({ deliveries: [{ settledBy }] } as unknown as EventDetail, known).deliveries[0]?.settler

describe('who settled a delivery', () => {
  it('is the worker that had its lane, by name while it is registered', () => {
    expect(settlerOf(WORKER)).toEqual({ workerId: WORKER, worker: 'web-1:4711', path: 'lane' })
    expect(settlerOf(WORKER, [])).toEqual({ workerId: WORKER, worker: null, path: 'lane' })
  })

  it('is the worker whose id ends like the hot token', () => {
    expect(TOKEN).toBe('ba987654-3210-8123-9456-0123456789ab')
    expect(settlerOf(TOKEN)).toEqual({ workerId: WORKER, worker: 'web-1:4711', path: 'hot' })
    expect(settlerOf(TOKEN, [])).toEqual({ workerId: '0123456789ab', worker: null, path: 'hot' })
  })

  it('is nobody where an operator or a maintainer wrote the outcome, or nobody did', () => {
    expect([settlerOf(null), settlerOf('redrive')]).toEqual([null, null])
  })
})
