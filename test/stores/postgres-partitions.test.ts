/** Partitions: made ahead, dropped as a whole, and never in anybody's way for long. */
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import { lowestIdAt } from '../../src/stores/postgres/periods.ts'
import { DAY_MS, dropCases, idsFrom, maintain, type PartitionHands, publishAt } from './partition-cases.ts'
import { createWorld, untilBlocking, untilWaiting, type World } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'
import { until } from './until.ts'

let world: World

beforeEach(async () => {
  world = await createWorld(newPostgresUrl(), { layout: 'partitioned' })
})

afterEach(() => world.close())

const dayName = (table: string, ms: number): string =>
  `${table}_p${new Date(ms).toISOString().slice(0, 10).replaceAll('-', '')}`

const partitions = async (): Promise<string[]> => {
  const { rows } = await world.hand.query(
    'SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = $2 ORDER BY 1',
    [world.schema, 'r'],
  )
  return rows.map((row) => row.relname)
}

const countIn = async (table: string): Promise<number> =>
  (await world.hand.query(`SELECT count(*)::int AS n FROM ${world.schema}.${table}`)).rows[0].n

/** A day that is long past, with its partitions, and an event of that day. */
const oldDay = async (daysAgo = 20) => {
  const ms = Date.now() - daysAgo * DAY_MS
  const day = Math.floor(ms / DAY_MS) * DAY_MS
  for (const table of ['events', 'finished']) {
    await world.hand.query(
      `CREATE TABLE ${world.schema}.${dayName(table, day)} PARTITION OF ${world.schema}.${table} FOR VALUES FROM ('${lowestIdAt(day)}') TO ('${lowestIdAt(day + DAY_MS)}')`,
    )
  }
  return {
    ms,
    ...(await publishAt(world.t, ms)),
    events: dayName('events', day),
    finished: dayName('finished', day),
  }
}

/**
 * An event that came too early, whose partition waits when it is attached, before that is committed. `goOn` resolves when it
 * no longer does.
 */
const attaching = async (there: World) => {
  const { t, hand, schema } = there
  const published = await publishAt(t, Date.now() + 31 * DAY_MS)
  await hand.query(`CREATE FUNCTION ${schema}.stay() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
  IF EXISTS (SELECT 1 FROM pg_event_trigger_ddl_commands() WHERE object_identity = '${schema}.events') THEN
    PERFORM pg_advisory_xact_lock(hashtextextended('${schema}', 0));
  END IF;
END $$;
CREATE EVENT TRIGGER ${schema} ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION ${schema}.stay();
SELECT pg_advisory_lock(hashtextextended('${schema}', 0))`)
  const made = maintain(t, { lookAheadMs: 31 * DAY_MS, lockTimeoutMs: 60_000 })
  await untilWaiting(there, 1)
  const goOn = async (): Promise<void> => {
    await hand.query(`SELECT pg_advisory_unlock(hashtextextended('${schema}', 0))`)
    await made
    await hand.query(`DROP EVENT TRIGGER ${schema}`)
  }
  return { published, made, goOn }
}

const warnings = (): string[] =>
  world.harness.logged.flatMap(({ level, message }) => (level === 'warn' ? [message] : []))

const TAILS = ['events_tail', 'finished_tail']

const hands = (): PartitionHands => ({
  t: world.t,
  oldPeriod: oldDay,
  ageFinished: () =>
    world.hand.query(`UPDATE ${world.schema}.finished SET finished_at = now() - interval '8 days'`),
  deleteDeliveries: () => world.hand.query(`DELETE FROM ${world.schema}.deliveries`),
  countOf: countIn,
  hasTails: async () => {
    const all = await partitions()
    return TAILS.every((tail) => all.includes(tail))
  },
  lockIsAwaited: async () => {
    const waiting = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'`
    return (await world.hand.query(waiting, [world.schema])).rows.length > 0
  },
  readEvents: async () => {
    const reader = new pg.Client({ connectionString: world.url })
    await reader.connect()
    await reader.query(`BEGIN; SELECT count(*) FROM ${world.schema}.events`)
    return reader
  },
})

describe('partitions are made', () => {
  it('by the migration, for today and thirty days, beside the tails', async () => {
    const all = await partitions()
    expect(all).toContain(dayName('events', Date.now()))
    expect(all).toContain(dayName('finished', Date.now() + 30 * DAY_MS))
    expect(all).toEqual(expect.arrayContaining(TAILS))
    expect(all.length).toBe(2 * 31 + 2)
  })

  it('as far ahead as asked, and only once', async () => {
    const { created } = await maintain(world.t, { lookAheadMs: 32 * DAY_MS })
    expect([...created].sort()).toEqual(
      [31, 32]
        .flatMap((days) => ['events', 'finished'].map((table) => dayName(table, Date.now() + days * DAY_MS)))
        .sort(),
    )
    expect((await maintain(world.t, { lookAheadMs: 32 * DAY_MS })).created).toEqual([])
  })

  it('with pages that the planner can count on, which vacuuming leaves; also where all tables are published', async () => {
    const { hand, schema } = world
    const days = [31, 32].map((days) => dayName('events', Date.now() + days * DAY_MS))
    await maintain(world.t, { lookAheadMs: 31 * DAY_MS })
    await hand.query(`CREATE PUBLICATION ${schema} FOR TABLES IN SCHEMA ${schema}`)
    try {
      await maintain(world.t, { lookAheadMs: 32 * DAY_MS })
    } finally {
      await hand.query(`DROP PUBLICATION ${schema}`)
    }
    for (const table of days) {
      await hand.query(`VACUUM (ANALYZE) ${schema}.${table}`)
      const { rows } = await hand.query(
        `SELECT relpages AS pages, reltuples AS rows FROM pg_class WHERE oid = '${schema}.${table}'::regclass`,
      )
      expect(rows).toEqual([{ pages: 12, rows: 0 }])
    }
  })

  it('and used: an event and its finished delivery lie in the partition of their day', async () => {
    const me = await world.t.worker()
    const published = await world.t.publish()
    expect(await countIn(dayName('events', Date.now()))).toBe(1)
    await world.t.done(published, me.right)
    expect(await countIn(dayName('finished', Date.now()))).toBe(1)
  })

  it('[44] without the rows that came too early: they are moved out of the tail', async () => {
    const ms = Date.now() + 31 * DAY_MS
    const event = world.t.event({ id: idsFrom(ms)() })
    await world.t.insert({ events: [event], deliveries: [world.t.delivery(event)] })
    expect(await countIn('events_tail')).toBe(1)
    const { created } = await maintain(world.t, { lookAheadMs: 31 * DAY_MS })
    expect(created).toContain(dayName('events', ms))
    expect(await countIn('events_tail')).toBe(0)
    expect(await countIn(dayName('events', ms))).toBe(1)
    expect((await world.t.read()).fresh.map((row) => row.event?.id)).toEqual([event.id])
  })

  it('[44] without a read that misses what is moved meanwhile: it would take the event for lost', async () => {
    const { published, made, goOn } = await attaching(world)
    const read = world.t.read()
    await untilWaiting(world, 2)
    await goOn()
    expect((await read).fresh.map((row) => row.event?.id)).toEqual([published.event.id])
    expect((await made).created).toHaveLength(2)
  })

  it('[44] and people who ask for such an event meanwhile are shown it', async () => {
    const { published, made, goOn } = await attaching(world)
    const shown = world.t.store.inspection.event(published.event.id)
    await untilWaiting(world, 2)
    await goOn()
    expect((await shown)?.event.id).toBe(published.event.id)
    await made
  })

  it.each(['repeatable read', 'serializable'])(
    '[44] nor does a process that reads by default in %s, where a snapshot is older than the wait',
    async (level) => {
      const url = new URL(newPostgresUrl())
      url.searchParams.set('options', `-c default_transaction_isolation=${level.replace(' ', '\\ ')}`)
      const other = await createWorld(url.href, { layout: 'partitioned' })
      try {
        const { published, made, goOn } = await attaching(other)
        const heard: string[] = []
        const outbox = createOutbox({
          store: postgresStore({ connectionString: url.href, schema: other.schema, layout: 'partitioned' }),
          destinations: { alpha: { events: ['*'] } },
          maintain: false,
        })
        outbox.on('alpha', '*', ({ id }) => void heard.push(id))
        onTestFinished(() => outbox.close())
        await outbox.start()
        await until('the read waits', async () => {
          const waiting = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%due AS MATERIALIZED%${other.schema}%'`
          return (await world.hand.query(waiting)).rows.length > 0
        })
        const { id } = published.delivery
        const shown = other.t.store.inspection.eventOfDelivery(id)
        const late = other.t.store.queue.readByIds('alpha', [id])
        await untilWaiting(other, 4)
        await goOn()
        await made
        expect([(await shown)?.id, (await late)[0]?.event?.id]).toEqual([
          published.event.id,
          published.event.id,
        ])
        await until('it is settled', async () => (await other.t.status(published)) !== 'pending')
        expect([heard, await other.t.status(published)]).toEqual([[published.event.id], 'done'])
      } finally {
        await other.close()
      }
    },
  )

  it('[45] when cleaning is over, whose locks come in another order; nobody else waits for that', async () => {
    const { hand, schema, t } = world
    for (const table of ['finished', 'events'])
      await hand.query(`DROP TABLE ${schema}.${dayName(table, Date.now())}`)
    const published = await t.publish()
    await hand.query(
      `BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('posthaste clean ${schema}.', 0)); LOCK TABLE ${schema}.events_tail IN ROW EXCLUSIVE MODE`,
    )
    const made = maintain(t, { lockTimeoutMs: 60_000 })
    await untilBlocking(world.url, hand)
    expect((await t.read()).fresh.map((row) => row.event?.id)).toEqual([published.event.id])
    await hand.query(`SELECT count(*) FROM ${schema}.events; COMMIT`)
    expect((await made).created).toHaveLength(2)
  })

  it('by another process a moment ago, which is no failure', async () => {
    const { hand, schema, t } = world
    const day = Math.floor(Date.now() / DAY_MS + 31) * DAY_MS
    await hand.query(
      `BEGIN; CREATE TABLE ${schema}.${dayName('finished', day)} PARTITION OF ${schema}.finished FOR VALUES FROM ('${lowestIdAt(day)}') TO ('${lowestIdAt(day + DAY_MS)}')`,
    )
    const made = maintain(t, { lookAheadMs: 31 * DAY_MS, lockTimeoutMs: 60_000 })
    await untilBlocking(world.url, hand)
    await hand.query('COMMIT')
    expect((await made).created).toEqual([dayName('events', Date.now() + 31 * DAY_MS)])
    expect(warnings()).toEqual([])
  })

  it('not where a table of the name of one is in the way, which is said', async () => {
    const { hand, schema, t } = world
    const name = dayName('finished', Date.now() + 31 * DAY_MS)
    await hand.query(`CREATE TABLE ${schema}.${name} (LIKE ${schema}.finished)`)
    const { created } = await maintain(t, { lookAheadMs: 31 * DAY_MS })
    expect(created).toEqual([dayName('events', Date.now() + 31 * DAY_MS)])
    expect(warnings()).toEqual(['a partition could not be made; its rows go to the tail'])
    const said = world.harness.logged.find(({ level }) => level === 'warn')
    expect(said?.fields).toEqual({ partition: name, reason: 'another table or partition has its name' })
  })

  it('[44] for the days that begin soon, only when nobody is in the middle of a statement', async () => {
    const { hand, schema } = world
    const today = ['finished', 'events'].map((table) => dayName(table, Date.now()))
    for (const table of today) await hand.query(`DROP TABLE ${schema}.${table}`)
    await hand.query(`BEGIN; LOCK TABLE ONLY ${schema}.events IN ACCESS SHARE MODE`)
    expect((await maintain(world.t, { lockTimeoutMs: 20 })).created).toEqual(today.slice(0, 1))
    await hand.query('COMMIT')
    expect((await maintain(world.t)).created).toEqual(today.slice(1))
  })

  it('[45] later, when somebody is writing to the tail; nobody waits for that for long', async () => {
    const event = world.t.event({ id: idsFrom(Date.now() + 60 * DAY_MS)() })
    const open = await world.t.begin()
    await world.t.insertIn(open.tx, { events: [event] })
    const { created } = await maintain(world.t, { lookAheadMs: 31 * DAY_MS, lockTimeoutMs: 20 })
    expect(created).toEqual([dayName('finished', Date.now() + 31 * DAY_MS)])
    await open.commit()
    const again = await maintain(world.t, { lookAheadMs: 31 * DAY_MS })
    expect(again.created).toEqual([dayName('events', Date.now() + 31 * DAY_MS)])
  })

  it('[44] for no id in particular: those of other kinds go to the tail', async () => {
    const event = world.t.event({ id: 'f47ac10b-58cc-4372-a567-0e02b2c3d479' })
    await world.t.insert({ events: [event], deliveries: [world.t.delivery(event)] })
    expect(await countIn('events_tail')).toBe(1)
    expect((await world.t.read()).fresh.map((row) => row.event?.id)).toEqual([event.id])
  })
})

describe('partitions are dropped', () => {
  dropCases(hands)

  it('not before their time', async () => {
    await oldDay(5)
    const { dropped, kept } = await maintain(world.t)
    expect([dropped, kept]).toEqual([[], []])
  })
})

it('a plain layout has no partitions', async () => {
  const plain = await createWorld(newPostgresUrl())
  try {
    expect(plain.t.store.maintenance.partitions).toBeUndefined()
  } finally {
    await plain.close()
  }
})

it('whoever looks after partitions is told that there are none, and not that tables are missing', async () => {
  const { schema } = world
  const everything = { doneOlderThanMs: 0, deadOlderThanMs: 0, dedupOlderThanMs: 0, limit: 10 }
  const told = 'has tables without partitions, but the option layout is "partitioned"'
  await world.hand.query(`DROP SCHEMA ${schema} CASCADE`)
  await expect(maintain(world.t)).rejects.toThrow('Migrate it first')
  const plain = await createWorld(newPostgresUrl())
  try {
    await world.hand.query(`ALTER SCHEMA ${plain.schema} RENAME TO ${schema}`)
    await expect(maintain(world.t)).rejects.toMatchObject({
      code: 'POSTHASTE_SCHEMA_BEHIND',
      message: expect.stringContaining(told),
    })
    await expect(world.t.store.maintenance.cleanup(everything)).rejects.toThrow(told)
    await world.hand.query(`ALTER SCHEMA ${schema} RENAME TO ${plain.schema}`)
    await world.hand.query(`DROP TABLE ${plain.schema}.dedup`)
    // A plain one has lost a table indeed.
    await expect(plain.t.store.maintenance.cleanup(everything)).rejects.toThrow('Migrate it first')
  } finally {
    await plain.close()
  }
})
