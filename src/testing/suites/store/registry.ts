import assert from 'node:assert/strict'
import { UNROUTED } from '../../../core/model/index.ts'
import {
  LONG_MS,
  OPERATOR,
  type Published,
  rejectsWithCode,
  type StoreFixture,
  type Topic,
} from '../store-fixture.ts'

/** Everything that a destination missed, found in as many steps as the store likes. */
const findAll = async (t: StoreFixture, destination: string): Promise<string[]> => {
  const found: string[] = []
  for (let step = 0; step < 100; step++) {
    const { events, scannedTo, more } = await t.store.registry.findUnreconciled(destination, 10)
    found.push(...events.map((event) => event.id))
    if (!more) return found
    await t.store.registry.reconcile(destination, [], scannedTo)
  }
  throw new Error('the search for missing deliveries does not come to an end')
}

const missing = (t: StoreFixture, { event }: Published, seq: bigint, destination: string) => {
  const { due: _due, token: _token, ...rest } = t.delivery(event, { destination })
  return { ...rest, seq }
}

export const registryTopic: Topic = {
  title: 'registry and reconciliation',
  cases: {
    'a new destination is registered with its patterns and grows the version': async (t) => {
      const before = await t.store.registry.load()
      const state = await t.store.registry.declare([{ name: 'alpha', patterns: ['order.*', 'invoice.sent'] }])
      assert.ok(state.version > before.version)
      const [alpha] = state.destinations
      assert.deepEqual([alpha!.name, [...alpha!.patterns].sort()], ['alpha', ['invoice.sent', 'order.*']])
      assert.deepEqual([alpha!.version, alpha!.paused, alpha!.ratePerSecond], [state.version, false, null])
      assert.deepEqual(await t.store.registry.load(), state)
    },

    'a new destination can begin paused, and then it is the operator’s': async (t) => {
      const declaration = [{ name: 'alpha', patterns: ['*'], paused: true }]
      const paused = async () => (await t.store.registry.load()).destinations[0]!.paused
      await t.store.registry.declare(declaration)
      assert.equal(await paused(), true)
      await t.store.registry.configure('alpha', { paused: false }, { actor: 'someone', reason: null })
      await t.store.registry.declare(declaration)
      assert.equal(await paused(), false)
    },

    'declaring the same again changes nothing': async (t) => {
      const declaration = [{ name: 'alpha', patterns: ['a.*', 'b.*'] }]
      const first = await t.store.registry.declare(declaration)
      assert.deepEqual(await t.store.registry.declare(declaration), first)
    },

    'a pattern counts from the events that there are when it comes': async (t) => {
      await t.publish()
      const [first] = (await t.store.registry.declare([{ name: 'alpha', patterns: ['a.*'] }])).destinations
      const published = await t.publish()
      const { seq } = await t.readOne(published)
      const [alpha] = (await t.store.registry.declare([{ name: 'alpha', patterns: ['b.*', 'a.*'] }]))
        .destinations
      const from = new Map(alpha!.patterns.map((pattern, i) => [pattern, alpha!.patternsFrom[i]!]))
      assert.equal(from.get('a.*'), first!.patternsFrom[0], 'a known one keeps its position')
      assert.ok(from.get('a.*')! < seq && from.get('b.*')! >= seq)
      assert.deepEqual((await t.store.registry.load()).destinations[0], alpha)
    },

    'new patterns grow the version of that destination alone': async (t) => {
      const first = await t.store.registry.declare([
        { name: 'alpha', patterns: ['a.*'] },
        { name: 'beta', patterns: ['b.*'] },
      ])
      const second = await t.store.registry.declare([{ name: 'alpha', patterns: ['a.*', 'c.*'] }])
      assert.ok(second.version > first.version)
      const by = new Map(second.destinations.map((one) => [one.name, one]))
      assert.equal(by.get('alpha')!.version, second.version)
      assert.equal(by.get('beta')!.version, first.destinations.find((one) => one.name === 'beta')!.version)
      assert.equal(
        by.get('alpha')!.startedAtMs,
        first.destinations.find((one) => one.name === 'alpha')!.startedAtMs,
      )
    },

    'declarations at the same time are all kept': async (t) => {
      const names = ['a', 'b', 'c', 'd', 'e']
      await Promise.all(names.map((name) => t.store.registry.declare([{ name, patterns: ['*'] }])))
      const { destinations, version } = await t.store.registry.load()
      assert.deepEqual(destinations.map((one) => one.name).sort(), names)
      for (const one of destinations) assert.ok(one.version <= version)
    },

    'settings of an operator are kept, and recorded': async (t) => {
      const { version } = await t.store.registry.declare([{ name: 'alpha', patterns: ['*'] }])
      await t.store.registry.configure('alpha', { paused: true, ratePerSecond: 2.5 }, OPERATOR)
      const [alpha] = (await t.store.registry.load()).destinations
      assert.deepEqual([alpha!.paused, alpha!.ratePerSecond], [true, 2.5])
      await t.store.registry.configure('alpha', { ratePerSecond: null }, OPERATOR)
      const state = await t.store.registry.load()
      assert.deepEqual([state.destinations[0]!.paused, state.destinations[0]!.ratePerSecond], [true, null])
      assert.equal(state.version, version, 'routes did not change')
      const audit = await t.store.inspection.audit({ limit: 10 })
      assert.deepEqual(
        audit.map((entry) => entry.actor),
        ['ops', 'ops'],
      )
    },

    'what an operator tunes is kept by name; null takes it back, what is not named stays': async (t) => {
      await t.declare('alpha', 'beta')
      const settingsOf = async (name: string) =>
        (await t.store.registry.load()).destinations.find((one) => one.name === name)!.settings
      assert.deepEqual(await settingsOf('alpha'), {})
      await t.store.registry.configure('alpha', { concurrency: 8, pollIntervalMs: 50 }, OPERATOR)
      await t.store.registry.configure('alpha', { batchSize: 7, paused: true }, OPERATOR)
      assert.deepEqual(await settingsOf('alpha'), { concurrency: 8, pollIntervalMs: 50, batchSize: 7 })
      await t.store.registry.configure('alpha', { concurrency: null, pollBatchSize: 9 }, OPERATOR)
      await t.store.registry.configure('alpha', { ratePerSecond: 1 }, OPERATOR)
      const left = { pollIntervalMs: 50, batchSize: 7, pollBatchSize: 9 }
      assert.deepEqual(await settingsOf('alpha'), left)
      await t.store.registry.declare([{ name: 'alpha', patterns: ['other.*'] }])
      assert.deepEqual(await settingsOf('alpha'), left)
      assert.deepEqual(await settingsOf('beta'), {})
      const [, tuned] = await t.store.inspection.audit({ limit: 2 })
      assert.deepEqual(JSON.parse(tuned!.target), {
        destination: 'alpha',
        concurrency: null,
        pollBatchSize: 9,
      })
    },

    'operators who tune at the same time do not undo each other': async (t) => {
      await t.declare('alpha')
      const changes = [{ concurrency: 2 }, { batchSize: 3 }, { pollBatchSize: 4 }, { pollIntervalMs: 50 }]
      await Promise.all(changes.map((change) => t.store.registry.configure('alpha', change, OPERATOR)))
      const [alpha] = (await t.store.registry.load()).destinations
      assert.deepEqual(alpha!.settings, Object.assign({}, ...changes))
    },

    'declaring again does not undo an operator': async (t) => {
      await t.declare('alpha')
      await t.store.registry.configure('alpha', { paused: true }, OPERATOR)
      await t.store.registry.declare([{ name: 'alpha', patterns: ['other.*'] }])
      assert.equal((await t.store.registry.load()).destinations[0]!.paused, true)
    },

    'settings of an unknown destination are refused': async (t) => {
      await rejectsWithCode(
        t.store.registry.configure('nowhere', { paused: true }, OPERATOR),
        'POSTHASTE_NOT_FOUND',
      )
    },

    'a destination without patterns stays, grows the version, and is recorded when an operator did it':
      async (t) => {
        const before = await t.store.registry.declare([
          { name: 'alpha', patterns: ['*'] },
          { name: 'beta', patterns: ['*', 'a.*'] },
        ])
        assert.deepEqual(await t.store.inspection.audit({ limit: 10 }), [])
        const none = [{ name: 'beta', patterns: [] }]
        const state = await t.store.registry.declare(none, OPERATOR)
        assert.ok(state.version > before.version)
        const beta = state.destinations.find(({ name }) => name === 'beta')!
        assert.deepEqual([beta.patterns, beta.patternsFrom, beta.version], [[], [], state.version])
        assert.deepEqual(await t.store.registry.load(), state)
        assert.deepEqual(await t.store.registry.declare(none, OPERATOR), state)
        assert.deepEqual(
          (await t.store.inspection.audit({ limit: 10 })).map(({ atMs: _, target, ...rest }) => ({
            ...rest,
            target: JSON.parse(target) as unknown,
          })),
          [{ ...OPERATOR, action: 'retire', target: { destination: 'beta' }, count: 1 }],
        )
      },

    'patterns that come again count from the events that there are then': async (t) => {
      await t.declare('alpha', 'beta')
      const gone = await t.store.registry.declare([{ name: 'beta', patterns: [] }], OPERATOR)
      const quiet = await t.publish({ routesVersion: gone.version })
      const { seq } = await t.readOne(quiet)
      const back = await t.store.registry.declare([{ name: 'beta', patterns: ['*'] }])
      assert.ok(back.version > gone.version)
      const beta = back.destinations.find(({ name }) => name === 'beta')!
      assert.ok(beta.patternsFrom[0]! >= seq, 'it would hear what was published while it was gone')
    },

    'events that an older publisher routed after the start are found, others are not': async (t) => {
      const old = await t.store.registry.declare([{ name: 'alpha', patterns: ['*'] }])
      await t.publish({ routesVersion: old.version })
      const now = await t.store.registry.declare([{ name: 'beta', patterns: ['*'] }])
      const missed = await t.publish({ routesVersion: old.version, key: 'k', type: 'a.b' })
      await t.publish({ routesVersion: now.version })
      await t.publish({ routesVersion: old.version, destination: 'beta' })
      const { events, more } = await t.store.registry.findUnreconciled('beta', 10)
      assert.deepEqual(
        events.map(({ id, type, key, size }) => ({ id, type, key, size })),
        [{ id: missed.event.id, type: 'a.b', key: 'k', size: missed.event.size }],
      )
      assert.equal(more, false)
      assert.deepEqual(await findAll(t, 'alpha'), [])
    },

    'reconciling adds the missing delivery once, in its place': async (t) => {
      const old = await t.store.registry.declare([{ name: 'alpha', patterns: ['*'] }])
      await t.store.registry.declare([{ name: 'beta', patterns: ['*'] }])
      const missed = await t.publish({ routesVersion: old.version })
      const { events, scannedTo } = await t.store.registry.findUnreconciled('beta', 10)
      const added = [missing(t, missed, events[0]!.seq, 'beta')]
      assert.equal(await t.store.registry.reconcile('beta', added, scannedTo), 1)
      assert.equal(await t.store.registry.reconcile('beta', added, scannedTo), 0)
      const again = [missing(t, missed, events[0]!.seq, 'beta')]
      assert.equal(await t.store.registry.reconcile('beta', again, scannedTo), 0)
      const { fresh } = await t.read({ destination: 'beta' })
      assert.deepEqual(
        fresh.map((row) => [row.event?.id, row.seq, row.run]),
        [[missed.event.id, events[0]!.seq, 1]],
      )
      assert.deepEqual(await findAll(t, 'beta'), [])
    },

    'what is added of a delayed event waits for its time like the others': async (t) => {
      const old = await t.store.registry.declare([{ name: 'alpha', patterns: ['*'] }])
      await t.store.registry.declare([{ name: 'beta', patterns: ['*'] }])
      const delayed = await t.publish({ routesVersion: old.version, due: { afterMs: LONG_MS } })
      const { events, scannedTo } = await t.store.registry.findUnreconciled('beta', 10)
      await t.store.registry.reconcile('beta', [missing(t, delayed, events[0]!.seq, 'beta')], scannedTo)
      assert.deepEqual((await t.read({ destination: 'beta' })).fresh, [])
      const detail = await t.store.inspection.event(delayed.event.id)
      assert.deepEqual(
        detail!.deliveries.map(({ status }) => status),
        ['scheduled', 'scheduled'],
      )
      const [one, other] = detail!.deliveries.map(({ availableAtMs }) => availableAtMs)
      assert.equal(one, other)
    },

    'the search says how far it has looked also when nothing is missing': async (t) => {
      const { version } = await t.store.registry.declare([{ name: 'alpha', patterns: ['*'] }])
      const heard = await t.publish({ routesVersion: version, destination: 'alpha' })
      const { seq } = await t.readOne(heard)
      const { events, scannedTo, more } = await t.store.registry.findUnreconciled('alpha', 10)
      assert.deepEqual([events, more], [[], false])
      assert.ok(scannedTo >= seq, `${scannedTo} is before ${seq}`)
    },

    'a delivery that is finished already is not added again': async (t) => {
      const me = await t.worker()
      const old = await t.store.registry.declare([{ name: 'alpha', patterns: ['*'] }])
      await t.store.registry.declare([{ name: 'beta', patterns: ['*'] }])
      const heard = await t.publish({ routesVersion: old.version, destination: 'beta' })
      const { seq } = await t.readOne(heard)
      await t.done(heard, me.right)
      assert.deepEqual(await findAll(t, 'beta'), [])
      assert.equal(await t.store.registry.reconcile('beta', [missing(t, heard, seq, 'beta')], seq), 0)
    },

    'the search goes on where it was, in bounded steps': async (t) => {
      const old = await t.store.registry.declare([{ name: 'alpha', patterns: ['*'] }])
      await t.store.registry.declare([{ name: 'beta', patterns: ['*'] }])
      const missed: string[] = []
      for (let i = 0; i < 5; i++) missed.push((await t.publish({ routesVersion: old.version })).event.id)
      const first = await t.store.registry.findUnreconciled('beta', 2)
      assert.deepEqual(
        first.events.map((event) => event.id),
        missed.slice(0, 2),
      )
      assert.equal(first.more, true)
      await t.store.registry.reconcile('beta', [], first.scannedTo)
      assert.deepEqual(await findAll(t, 'beta'), missed.slice(2))
    },

    'an event that still waits for expansion is left to the expansion': async (t) => {
      await t.store.registry.declare([{ name: 'alpha', patterns: ['*'] }])
      await t.publish({ routesVersion: 0, destination: UNROUTED })
      assert.deepEqual(await findAll(t, 'alpha'), [])
    },

    'an event that commits late is not skipped by the search': async (t) => {
      t.needsOverlap()
      const old = await t.store.registry.declare([{ name: 'alpha', patterns: ['*'] }])
      await t.store.registry.declare([{ name: 'beta', patterns: ['*'] }])
      const late = t.prepare({ routesVersion: old.version })
      const open = await t.begin()
      await t.publishIn(open.tx, late)
      await t.publish({ routesVersion: old.version })
      const { scannedTo } = await t.store.registry.findUnreconciled('beta', 10)
      await t.store.registry.reconcile('beta', [], scannedTo)
      await open.commit()
      assert.ok((await findAll(t, 'beta')).includes(late.event.id))
    },
  },
}
