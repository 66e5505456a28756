import { describe, expect, it } from 'vitest'
import type { WorkerLease } from '../spi/index.ts'
import { LeaseWatch } from './lease-watch.ts'

const OWN_MS = 10_000

const lease = (over: Partial<WorkerLease> = {}): WorkerLease => ({
  workerId: 'w',
  stamp: '1',
  leaseMs: 4_000,
  expiresInMs: 4_000,
  ...over,
})

describe('the watch over other leases', () => {
  it('[26] calls nobody silent before a whole lease has passed since it was first seen, whatever the database says', () => {
    const watch = new LeaseWatch()
    watch.see([lease()], 100, OWN_MS)
    watch.see([lease({ expiresInMs: -3_600_000 })], 600, OWN_MS)
    expect(watch.silent(4_099)).toEqual([])
    expect(watch.silent(4_100)).toEqual([{ workerId: 'w', stamp: '1' }])
  })

  it('begins anew with every renewal', () => {
    const watch = new LeaseWatch()
    watch.see([lease()], 0, OWN_MS)
    watch.see([lease({ stamp: '2' })], 3_000, OWN_MS)
    expect(watch.silent(6_999)).toEqual([])
    expect(watch.silent(7_000)).toEqual([{ workerId: 'w', stamp: '2' }])
  })

  it('takes its own lease for that of a version that does not say', () => {
    const watch = new LeaseWatch()
    watch.see([lease({ leaseMs: null })], 0, OWN_MS)
    expect(watch.silent(9_999)).toEqual([])
    expect(watch.silent(10_000)).toHaveLength(1)
  })

  it('forgets whoever is gone', () => {
    const watch = new LeaseWatch()
    watch.see([lease()], 0, OWN_MS)
    watch.see([], 1_000, OWN_MS)
    watch.see([lease()], 2_000, OWN_MS)
    expect(watch.silent(5_999)).toEqual([])
  })

  it('says when to look again, and not at all when all that is left is up to the database', () => {
    const watch = new LeaseWatch()
    expect(watch.nextInMs(0)).toBeNull()
    watch.see([lease(), lease({ workerId: 'v', leaseMs: 9_000, expiresInMs: -1 })], 0, OWN_MS)
    expect([watch.nextInMs(1_000), watch.nextInMs(5_000), watch.nextInMs(9_000)]).toEqual([
      3_000,
      4_000,
      null,
    ])
  })

  it('believes the database about a lease that is over for ten times its length at first sight, and then only', () => {
    const watch = new LeaseWatch()
    watch.see([lease({ expiresInMs: -39_999 }), lease({ workerId: 'v', expiresInMs: -40_000 })], 0, OWN_MS)
    expect(watch.silent(0)).toEqual([{ workerId: 'v', stamp: '1' }])
    watch.see([lease({ expiresInMs: -80_000 }), lease({ workerId: 'v', stamp: '2' })], 500, OWN_MS)
    watch.see(
      [lease({ expiresInMs: -80_000 }), lease({ workerId: 'v', stamp: '3', expiresInMs: -80_000 })],
      600,
      OWN_MS,
    )
    expect(watch.silent(3_999)).toEqual([])
    expect(watch.silent(4_000)).toEqual([{ workerId: 'w', stamp: '1' }])
  })
})
