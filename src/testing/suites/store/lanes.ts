import assert from 'node:assert/strict'
import { LANES } from '../../../core/model/index.ts'
import type { OwnedLane } from '../../../core/spi/index.ts'
import { LONG_MS, type StoreFixture, type Topic } from '../store-fixture.ts'

const take = (t: StoreFixture, workerId: string, atMost: number, destination = 'alpha') =>
  t.store.lanes.take(workerId, destination, atMost)

const numbers = (lanes: readonly OwnedLane[]): number[] => lanes.map(({ lane }) => lane).sort((a, b) => a - b)

export const lanesTopic: Topic = {
  title: 'lanes',
  cases: {
    'a declared destination has all its lanes free': async (t) => {
      await t.declare('alpha')
      const me = await t.worker()
      const survey = await t.store.lanes.survey(me.id, ['alpha'])
      assert.equal(survey.alive, true)
      assert.deepEqual(survey.destinations.get('alpha'), { workers: 1, mine: [], free: LANES })
    },

    'a worker takes at most as many lanes as it asks for, and none twice': async (t) => {
      await t.declare('alpha')
      const me = await t.worker()
      const first = await t.store.lanes.take(me.id, 'alpha', 5)
      assert.equal(first.length, 5)
      for (const taken of first) assert.equal(taken.clean, true, 'a lane that nobody had is clean')
      const second = await take(t, me.id, LANES)
      assert.equal(second.length, LANES - 5)
      const all = [...first, ...second]
      assert.deepEqual(
        numbers(all),
        Array.from({ length: LANES }, (_, lane) => lane),
      )
      const survey = await t.store.lanes.survey(me.id, ['alpha'])
      const byLane = (a: OwnedLane, b: OwnedLane): number => a.lane - b.lane
      assert.deepEqual(
        [...survey.destinations.get('alpha')!.mine].sort(byLane),
        all.map(({ lane, epoch }) => ({ lane, epoch })).sort(byLane),
      )
    },

    'workers that take at the same time never share a lane': async (t) => {
      await t.declare('alpha')
      const workers = [await t.worker(), await t.worker(), await t.worker()]
      const taken = await Promise.all(workers.map((worker) => take(t, worker.id, 30)))
      const all = taken.flatMap(numbers)
      assert.equal(new Set(all).size, all.length)
      assert.ok(all.length <= LANES)
    },

    'lanes of different destinations are separate': async (t) => {
      await t.declare('alpha', 'beta')
      const me = await t.worker({ destinations: ['alpha', 'beta'] })
      await take(t, me.id, LANES, 'alpha')
      const survey = await t.store.lanes.survey(me.id, ['alpha', 'beta'])
      assert.equal(survey.destinations.get('alpha')!.free, 0)
      assert.equal(survey.destinations.get('beta')!.free, LANES)
    },

    'there is nothing to take of a destination that nobody declared': async (t) => {
      const me = await t.worker()
      assert.deepEqual(await t.store.lanes.take(me.id, 'nowhere', 10), [])
    },

    'lanes that were given up are free again, and clean': async (t) => {
      await t.declare('alpha')
      const [me, other] = [await t.worker(), await t.worker()]
      const mine = await take(t, me.id, LANES)
      const surplus = mine.slice(0, 10)
      await t.store.lanes.giveUp(me.id, 'alpha', surplus)
      const taken = await t.store.lanes.take(other.id, 'alpha', LANES)
      assert.deepEqual(numbers(taken), numbers(surplus))
      for (const one of taken) assert.equal(one.clean, true)
    },

    'giving up arrives too late when the lane was taken again since': async (t) => {
      await t.declare('alpha')
      const me = await t.worker()
      const before = await take(t, me.id, LANES)
      await t.store.lanes.giveUp(me.id, 'alpha', before)
      const again = await take(t, me.id, LANES)
      assert.ok(again.every(({ lane, epoch }) => epoch > before.find((one) => one.lane === lane)!.epoch))
      await t.store.lanes.giveUp(me.id, 'alpha', before)
      const survey = await t.store.lanes.survey(me.id, ['alpha'])
      assert.equal(survey.destinations.get('alpha')!.mine.length, LANES)
    },

    'nobody gives up the lanes of another worker': async (t) => {
      await t.declare('alpha')
      const [me, other] = [await t.worker(), await t.worker()]
      const mine = await take(t, me.id, LANES)
      await t.store.lanes.giveUp(other.id, 'alpha', mine)
      const survey = await t.store.lanes.survey(me.id, ['alpha'])
      assert.equal(survey.destinations.get('alpha')!.mine.length, LANES)
    },

    'a survey counts the live workers that serve a destination': async (t) => {
      await t.declare('alpha', 'beta')
      const me = await t.worker({ destinations: ['alpha', 'beta'] })
      await t.worker({ destinations: ['alpha'] })
      await t.fencedWorker()
      const survey = await t.store.lanes.survey(me.id, ['alpha', 'beta'])
      assert.equal(survey.destinations.get('alpha')!.workers, 2)
      assert.equal(survey.destinations.get('beta')!.workers, 1)
    },

    'a worker whose lease ran out is fenced by a survey and told so': async (t) => {
      const worker = await t.fencedWorker()
      assert.equal(await t.store.lanes.renew(worker.id, LONG_MS), false)
      assert.equal((await t.store.lanes.survey(worker.id, ['alpha'])).alive, false)
    },

    'a worker that renews in time is not fenced': async (t) => {
      const me = await t.worker({ leaseMs: 50 })
      assert.equal(await t.store.lanes.renew(me.id, LONG_MS), true)
      const other = await t.worker({ leaseMs: 60 })
      const watcher = await t.worker()
      await t.until(60, 'the other one is fenced', async () => {
        await t.store.lanes.survey(watcher.id, ['alpha'], await t.leasesSeenBy(watcher))
        const views = await t.store.inspection.workers()
        return views.some((view) => view.workerId === other.id && view.fenced)
      })
      assert.equal(await t.store.lanes.renew(me.id, LONG_MS), true)
    },

    '[26] nobody is fenced whom the survey does not name, even if its lease ran out': async (t) => {
      await t.declare('alpha')
      const [lost, watcher] = [await t.worker({ leaseMs: 1 }), await t.worker()]
      await take(t, lost.id, LANES)
      await t.until(5, 'its lease ran out', async () => {
        const [seen] = await t.leasesSeenBy(watcher)
        return seen !== undefined && seen.expiresInMs <= 0
      })
      const survey = await t.store.lanes.survey(watcher.id, ['alpha'], [])
      assert.deepEqual(survey.destinations.get('alpha'), { workers: 1, mine: [], free: 0 })
      assert.deepEqual(await take(t, watcher.id, LANES), [])
      assert.equal(await t.store.lanes.renew(lost.id, LONG_MS), true)
    },

    '[26] a worker that has renewed since its lease was seen is not fenced': async (t) => {
      const [lost, watcher] = [await t.worker({ leaseMs: 1 }), await t.worker()]
      const before = await t.leasesSeenBy(watcher)
      let now = before
      await t.until(5, 'it has another lease', async () => {
        await t.store.lanes.renew(lost.id, 1)
        now = await t.leasesSeenBy(watcher)
        return now[0]?.stamp !== before[0]?.stamp
      })
      await t.until(5, 'that one ran out, too', async () => {
        now = await t.leasesSeenBy(watcher)
        return (now[0]?.expiresInMs ?? 1) <= 0
      })
      const survey = await t.store.lanes.survey(watcher.id, ['alpha'], before)
      assert.deepEqual(
        survey.others.map(({ workerId }) => workerId),
        [lost.id],
      )
      assert.deepEqual((await t.store.lanes.survey(watcher.id, ['alpha'], now)).others, [])
      assert.equal(await t.store.lanes.renew(lost.id, LONG_MS), false)
    },

    '[26] a lease that has not run out is not ended by calling its worker silent': async (t) => {
      const [other, watcher] = [await t.worker({ leaseMs: LONG_MS }), await t.worker()]
      const seen = await t.leasesSeenBy(watcher)
      assert.deepEqual(
        seen.map(({ workerId, leaseMs }) => ({ workerId, leaseMs })),
        [{ workerId: other.id, leaseMs: LONG_MS }],
      )
      const { expiresInMs } = seen[0]!
      assert.ok(expiresInMs > 0 && expiresInMs <= LONG_MS + 1, `${expiresInMs} ms`)
      await t.store.lanes.survey(watcher.id, ['alpha'], seen)
      assert.equal(await t.store.lanes.renew(other.id, LONG_MS), true)
    },

    'a survey tells nothing of a worker that was fenced or has retired': async (t) => {
      const me = await t.worker()
      await t.fencedWorker()
      const gone = await t.worker()
      await t.store.lanes.retire(gone.id)
      assert.deepEqual(await t.leasesSeenBy(me), [])
    },

    'the lanes of a fenced worker can be taken, and are not clean': async (t) => {
      await t.declare('alpha')
      let lost: readonly OwnedLane[] = []
      await t.fencedWorker(async (worker) => {
        lost = await take(t, worker.id, 7)
      })
      const heir = await t.worker()
      const taken = await t.store.lanes.take(heir.id, 'alpha', LANES)
      assert.equal(taken.length, LANES)
      assert.deepEqual(numbers(taken.filter((one) => !one.clean)), numbers(lost))
    },

    'a lane that was taken over uncleanly is clean for whoever gets it next': async (t) => {
      await t.declare('alpha')
      await t.fencedWorker(async (worker) => {
        await take(t, worker.id, 3)
      })
      const heir = await t.worker()
      const lanes = await take(t, heir.id, LANES)
      await t.store.lanes.giveUp(heir.id, 'alpha', lanes)
      const next = await t.worker()
      for (const one of await t.store.lanes.take(next.id, 'alpha', LANES)) assert.equal(one.clean, true)
    },

    'a fenced worker takes nothing': async (t) => {
      await t.declare('alpha')
      const worker = await t.fencedWorker()
      assert.deepEqual(await t.store.lanes.take(worker.id, 'alpha', 10), [])
    },

    'a fenced worker cannot pass its lanes on as if they were clean': async (t) => {
      await t.declare('alpha')
      let lost: readonly OwnedLane[] = []
      const worker = await t.fencedWorker(async (one) => {
        lost = await take(t, one.id, 4)
      })
      await t.store.lanes.giveUp(worker.id, 'alpha', lost)
      await t.store.lanes.retire(worker.id)
      const heir = await t.worker()
      const taken = await t.store.lanes.take(heir.id, 'alpha', LANES)
      assert.equal(taken.filter((one) => !one.clean).length, 4)
    },

    'open breakers are told with a renewal, until one does not name them': async (t) => {
      const told = async (workerId: string) => {
        const views = await t.store.inspection.workers()
        return views.find((view) => view.workerId === workerId)!
      }
      const [me, other] = [await t.worker(), await t.worker()]
      await t.store.lanes.renew(me.id, LONG_MS, [
        { destination: 'alpha', openForMs: 90_000 },
        { destination: 'a "b" \\ ü', openForMs: 0 },
      ])
      const { openBreakers, startedAtMs } = await told(me.id)
      const since = new Map(openBreakers.map(({ destination, sinceMs }) => [destination, sinceMs]))
      assert.deepEqual([...since.keys()].sort(), ['a "b" \\ ü', 'alpha'])
      // By the database's clock, which also says when the worker began.
      assert.ok(Math.abs(since.get('alpha')! + 90_000 - since.get('a "b" \\ ü')!) <= 2)
      assert.ok(since.get('alpha')! < startedAtMs && since.get('a "b" \\ ü')! >= startedAtMs - 2)
      assert.deepEqual((await told(other.id)).openBreakers, [])
      await t.store.lanes.renew(me.id, LONG_MS, [])
      assert.deepEqual((await told(me.id)).openBreakers, [])
    },

    'a fenced worker tells nothing of its breakers': async (t) => {
      const worker = await t.fencedWorker()
      const open = [{ destination: 'alpha', openForMs: 5 }]
      assert.equal(await t.store.lanes.renew(worker.id, LONG_MS, open), false)
      const views = await t.store.inspection.workers()
      assert.deepEqual(views.find((view) => view.workerId === worker.id)!.openBreakers, [])
    },

    'a worker that nobody knows has no rights': async (t) => {
      await t.declare('alpha')
      const stranger = t.newId()
      assert.equal(await t.store.lanes.renew(stranger, LONG_MS), false)
      assert.deepEqual(await t.store.lanes.take(stranger, 'alpha', 10), [])
      assert.equal((await t.store.lanes.survey(stranger, ['alpha'])).alive, false)
    },

    'a worker that retires leaves clean lanes and no row': async (t) => {
      await t.declare('alpha')
      const me = await t.worker()
      await take(t, me.id, LANES)
      await t.store.lanes.retire(me.id)
      assert.deepEqual(await t.store.inspection.workers(), [])
      const heir = await t.worker()
      const taken = await t.store.lanes.take(heir.id, 'alpha', LANES)
      assert.equal(taken.length, LANES)
      for (const one of taken) assert.equal(one.clean, true)
      await t.store.lanes.retire(me.id)
    },

    'registering again after a lost answer extends the lease and changes nothing else': async (t) => {
      await t.declare('alpha')
      const workerId = t.newId()
      const registration = { workerId, name: 'host:1', leaseMs: 1, destinations: ['alpha'] }
      const watcher = await t.worker({ destinations: [] })
      await t.store.lanes.register(registration)
      const mine = await take(t, workerId, 3)
      const before = await t.leasesSeenBy(watcher)
      await t.store.lanes.register({ ...registration, leaseMs: LONG_MS })
      const after = await t.leasesSeenBy(watcher)
      assert.notEqual(after[0]!.stamp, before[0]!.stamp)
      assert.ok(after[0]!.expiresInMs > 1)
      const survey = await t.store.lanes.survey(workerId, ['alpha'])
      const { mine: still, ...rest } = survey.destinations.get('alpha')!
      assert.deepEqual(numbers(still), numbers(mine))
      assert.deepEqual(rest, { workers: 1, free: LANES - 3 })
    },

    'registering again does not lift a fence': async (t) => {
      const fenced = await t.fencedWorker()
      const registration = { workerId: fenced.id, name: 'host:1', leaseMs: LONG_MS, destinations: ['alpha'] }
      await t.store.lanes.register(registration).catch(() => undefined)
      assert.equal(await t.store.lanes.renew(fenced.id, LONG_MS), false)
      const published = await t.publish()
      assert.deepEqual((await t.done(published, fenced.right)).lost, [published.delivery.id])
    },

    '[19] a restart under the same name inherits no lanes and hides no orphans': async (t) => {
      await t.declare('alpha')
      const before = await t.worker({ name: 'pod-0', leaseMs: 1 })
      const orphaned = await take(t, before.id, 5)
      const after = await t.worker({ name: 'pod-0' })
      assert.deepEqual((await t.store.lanes.survey(after.id, ['alpha'])).destinations.get('alpha')!.mine, [])
      await t.fence(before)
      const taken = await t.store.lanes.take(after.id, 'alpha', LANES)
      assert.deepEqual(numbers(taken.filter((one) => !one.clean)), numbers(orphaned))
    },

    '[20] fencing the worker of an unknown destination leaves its deliveries to those who serve it': async (
      t,
    ) => {
      await t.declare('alpha', 'beta')
      const published = await t.publish({ destination: 'beta' })
      const lost = await t.worker({ destinations: ['beta'], leaseMs: 1 })
      await take(t, lost.id, LANES, 'beta')
      await t.fence(lost)
      assert.deepEqual(await t.readableIds('beta'), [published.delivery.id])
      assert.equal(await t.status(published), 'pending')
      const heir = await t.worker({ destinations: ['beta'] })
      assert.equal((await t.store.lanes.take(heir.id, 'beta', LANES)).length, LANES)
    },
  },
}
