import assert from 'node:assert/strict'
import type { Topic } from '../store-fixture.ts'

export const schemaTopic: Topic = {
  title: 'schema',
  cases: {
    'after a migration the schema is at its latest version': async (t) => {
      const status = await t.store.schema.status()
      assert.ok(status.latest >= 1)
      assert.equal(status.current, status.latest)
      assert.equal(status.applied.at(-1)?.version, status.latest)
    },

    'every applied migration has a name and a time': async (t) => {
      const { applied } = await t.store.schema.status()
      for (const one of applied) {
        assert.ok(one.name.length > 0)
        assert.ok(Number.isFinite(one.appliedAtMs))
      }
      const versions = applied.map((one) => one.version)
      assert.deepEqual(
        versions,
        [...new Set(versions)].sort((a, b) => a - b),
        'each version once, in order',
      )
    },

    'a migration that was already applied changes nothing': async (t) => {
      const published = await t.publish()
      const before = await t.store.schema.status()
      assert.deepEqual(await t.store.schema.migrate(), before)
      assert.deepEqual(await t.readableIds(), [published.delivery.id])
    },

    '[46] ten migrations at once leave one schema': async (t) => {
      const handles = t.harness.reopen
        ? [t.store, await t.harness.reopen(), await t.harness.reopen()]
        : [t.store]
      const runs = Array.from({ length: 10 }, (_, i) => handles[i % handles.length]!.schema.migrate())
      const statuses = await Promise.all(runs)
      for (const status of statuses) assert.deepEqual(status, statuses[0])
      assert.equal(statuses[0]?.applied.length, new Set(statuses[0]?.applied.map((one) => one.version)).size)
    },

    'the statements can be printed without a connection': async (t) => {
      assert.equal(typeof t.store.schema.sql(), 'string')
    },
  },
}
