/** Lanes and a worker who comes while somebody else looks for free ones. MySQL locks them first, MariaDB does not. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createWorld, rowsOf, type World } from './mysql-words.ts'
import { until } from './until.ts'

let world: World

/**
 * Workers become a view that keeps the second look of a session at them waiting, until nobody has the gate: then a
 * statement has seen who is there, and has not looked at the lanes.
 */
const buildGate = async (): Promise<{ open(): Promise<unknown> }> => {
  const { hand, table, harness } = world
  const gate = `${harness.prefix}gate`
  await hand.query(`SELECT GET_LOCK('${gate}', 0)`)
  await hand.query(`RENAME TABLE ${table('workers')} TO ${table('workers_there')}`)
  await hand.query(`CREATE FUNCTION ${table('pass')}(anybody VARCHAR(64)) RETURNS INT NOT DETERMINISTIC NO SQL BEGIN
    SET @looks = COALESCE(@looks, 0) + 1;
    RETURN IF(@looks = 2, GET_LOCK('${gate}', 10) + RELEASE_LOCK('${gate}'), 1); END`)
  await hand.query(
    `CREATE VIEW ${table('workers')} AS SELECT * FROM ${table('workers_there')} WHERE ${table('pass')}(id) > 0`,
  )
  return { open: () => hand.query(`SELECT RELEASE_LOCK('${gate}')`) }
}

const waitsAtTheGate = async (): Promise<boolean> => {
  const sql = "SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE LIKE 'User lock'"
  return (await rowsOf(world.hand, sql)).length > 0
}

beforeEach(async () => {
  world = await createWorld('mariadb')
})

afterEach(async () => {
  const { hand, table } = world
  await hand.query(`DROP VIEW IF EXISTS ${table('workers')}`)
  await hand.query(`DROP TABLE IF EXISTS ${table('workers_there')}`)
  await hand.query(`DROP FUNCTION IF EXISTS ${table('pass')}`)
  await world.close()
})

it('a worker who registers and takes lanes keeps them, though somebody else had looked before', async () => {
  const { t, hand, table } = world
  await t.declare('alpha')
  const early = await t.worker()
  const late = t.newId()
  const gate = await buildGate()
  const taking = t.store.lanes.take(early.id, 'alpha', 64)
  await until('somebody waits at the gate', waitsAtTheGate)
  // By hand, because the gate would keep it waiting too.
  await hand.query(
    `INSERT INTO ${table('workers_there')} (id, name, started_at, expires_at, destinations)
     SELECT '${late}', 'late', started_at, expires_at, destinations FROM ${table('workers_there')} WHERE id = '${early.id}'`,
  )
  await hand.query(
    `UPDATE ${table('lanes')} SET worker_id = '${late}', epoch = epoch + 1 WHERE destination = 'alpha' AND lane < 60`,
  )
  await gate.open()
  expect((await taking).map(({ lane }) => lane)).toEqual([60, 61, 62, 63])
})
