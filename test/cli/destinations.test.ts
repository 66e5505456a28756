/** Destinations that go, and those whose owner has gone, with the built program. */
import { join } from 'node:path'
import Database from 'libsql'
import { describe, expect, it } from 'vitest'
import { createShop, type Ended, SHOP } from './cli.ts'

const WITHOUT_MAILER = SHOP.replace("mailer: { events: ['order.*'] }, ", '').replace(
  /outbox\.on\('mailer'[\s\S]*?\n\}\)\n/,
  '',
)

const stateOf = ({ json }: Ended, name: string): string | undefined =>
  json.outboxes[0].destinations.find((one: { name: string }) => one.name === name)?.state

describe('a destination that goes', { timeout: 240_000 }, () => {
  it('collects deliveries until it is retired, and is forgotten when the last of them is cleaned up', async () => {
    const shop = await createShop()
    await shop.publish(1, 'ada')
    await shop.run(['worker', '--once', '--log-level', 'silent'])
    shop.write('shop.mjs', WITHOUT_MAILER)
    const [id = ''] = await shop.publish(2)
    await shop.run(['worker', '--once', '--log-level', 'silent'])

    expect(stateOf(await shop.run(['status', '--json']), 'mailer')).toBe('unserved')
    const remedy = 'declare it again, or posthaste retire mailer --reason "…"'
    expect((await shop.run(['doctor', '--json'])).json.findings).toContainEqual(
      expect.objectContaining({ check: 'destination served', level: 'error', remedy }),
    )
    expect((await shop.run(['doctor', '--json'])).json.findings).toContainEqual(
      expect.objectContaining({
        check: 'backlog',
        level: 'skipped',
        text: expect.stringContaining('"mailer" is unserved'),
      }),
    )
    expect((await shop.run(['why', id])).stdout).toContain(`no worker is alive. What to do: ${remedy}`)

    expect(await shop.run(['retire', 'mailer'])).toMatchObject({ code: 2 })
    expect(await shop.run(['retire', 'mailr', '--dry-run'])).toMatchObject({
      code: 5,
      stderr: expect.stringContaining('did you mean "mailer"?'),
    })
    expect((await shop.run(['retire', 'mailer', '--dry-run', '--json'])).json).toMatchObject({
      dryRun: true,
      matched: 3,
      discarded: 0,
      left: 3,
    })
    const retired = await shop.run(['retire', 'mailer', '--reason', 'no more mails'])
    expect(retired).toMatchObject({ code: 0, stdout: 'mailer of shop is retired; 3 deliveries discarded\n' })
    expect((await shop.run(['why', id])).stdout).toContain('gave it up: no more mails')
    expect((await shop.run(['retire', 'mailer', '--reason', 'again', '--json'])).json).toMatchObject({
      matched: 0,
      discarded: 0,
      left: 0,
    })

    const [after = ''] = await shop.publish(1)
    await shop.run(['worker', '--once', '--log-level', 'silent'])
    const heard = (await shop.run(['events', 'show', after, '--json'])).json.deliveries
    expect(heard.map(({ destination }: { destination: string }) => destination)).toEqual(['audit'])
    expect(stateOf(await shop.run(['status', '--json']), 'mailer')).toBe('retired')
    expect((await shop.run(['doctor'])).stdout).not.toContain('mailer')
    await shop.run(['cleanup', '--retention', '0', '--include-dead', '--once'])
    expect(stateOf(await shop.run(['status', '--json']), 'mailer')).toBeUndefined()
    expect(stateOf(await shop.run(['status', '--json']), 'audit')).toBe('unserved')
  })

  it('is not retired while a live process serves it', async () => {
    const shop = await createShop()
    await shop.run(['migrate'])
    const worker = shop.start(['worker', '--log-level', 'silent'])
    const serving = async () => stateOf(await shop.run(['status', '--json']), 'mailer') === 'serving'
    while (!(await serving())) {}
    const refused = await shop.run(['retire', 'mailer', '--reason', 'too soon', '--json'])
    expect(refused).toMatchObject({ code: 6, json: { error: { code: 'POSTHASTE_CONFLICT' } } })
    expect(refused.json.error.message).toMatch(
      new RegExp(`is served by [^ ]+:${worker.child.pid}: deploy without it first`),
    )
    worker.child.kill('SIGTERM')
    await worker.ended
    const still = await shop.run(['retire', 'mailer', '--reason', 'now'])
    expect(still).toMatchObject({ code: 0, stderr: expect.stringContaining('still declares "mailer"') })
  })
})

describe('a destination whose owner has gone', { timeout: 240_000 }, () => {
  it('is being taken over while the lanes are still those of the other', async () => {
    const shop = await createShop()
    await shop.run(['migrate'])
    const status = () => shop.run(['status', '--json'])
    const first = shop.start(['worker', '--set', 'laneLease=5m', '--log-level', 'silent'])
    while (stateOf(await status(), 'mailer') !== 'serving') {}
    const [gone] = (await status()).json.outboxes[0].workers
    while ((await status()).json.outboxes[0].workers[0].lanes < 128) {}
    first.child.kill('SIGKILL')
    await first.ended
    // As if it had ended a minute ago for the database.
    const hand = new Database(join(shop.path, 'shop.db'))
    hand.prepare('UPDATE outbox_workers SET expires_at = ?').run(Date.now() - 60_000)
    hand.close()
    const [id = ''] = await shop.publish(1)
    expect(stateOf(await status(), 'mailer')).toBe('unserved')
    expect((await shop.run(['why', id])).stdout).toContain('No worker is alive')

    const second = shop.start(['worker', '--log-level', 'silent'])
    const pid = () => new RegExp(`:${second.child.pid}$`)
    const isThere = async () =>
      (await status()).json.outboxes[0].workers.some(({ name }: { name: string }) => pid().test(name))
    while (!(await isThere())) {}
    const now = await status()
    expect(stateOf(now, 'mailer')).toBe('taking over')
    expect(now.json.outboxes[0].destinations).toContainEqual(
      expect.objectContaining({ name: 'mailer', lanes: 0, leftLanes: [{ worker: gone.name, lanes: 64 }] }),
    )
    expect((await shop.run(['status'])).stdout).toMatch(/\(not routed yet\) +taking over/)
    expect((await shop.run(['why', id])).stdout).toContain(
      `the lanes are those that ${gone.name} had when its lease ran out. A live worker takes them when it has watched that lease`,
    )
  })
})

describe('a key behind its dead head', { timeout: 240_000 }, () => {
  it('waits for an operator, not for a worker', async () => {
    const shop = await createShop()
    shop.write('shop.mjs', SHOP.replace("['order.*'] }", "['order.*'], deadHead: 'block' }"))
    const [head = ''] = await shop.publish(1, 'ada')
    const [behind = ''] = await shop.publish(1)
    await shop.run(['worker', '--once', '--log-level', 'silent'])
    const { json } = await shop.run(['why', behind, '--json'])
    const mailer = json.deliveries.find((one: { destination: string }) => one.destination === 'mailer')
    expect(mailer.status).toBe('held')
    const dead = (await shop.run(['dead', 'list', '--each', '--json'])).json.deliveries
    expect(dead).toMatchObject([{ eventId: head }])
    expect(mailer.reasons.slice(0, 2)).toEqual([
      expect.stringContaining('waits for the head of its key "k0"'),
      expect.stringContaining(`posthaste dead redrive ${dead[0].id}; or correct it with dead edit`),
    ])
    const { findings } = (await shop.run(['doctor', '--json'])).json
    expect(findings).toContainEqual(expect.objectContaining({ check: 'worker alive', level: 'warning' }))
    expect(findings).toContainEqual(expect.objectContaining({ check: 'destination served', level: 'ok' }))
    const edit = await shop.run(['dead', 'edit', behind, '--payload', '{}'])
    expect(edit).toMatchObject({ code: 6, stderr: expect.stringContaining(`${behind} is not dead but`) })
    expect(edit.stderr).toContain(`posthaste why ${behind} says more`)
  })
})
