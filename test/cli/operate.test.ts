/** Looking and repairing: every command on a small shop, with the built program. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'libsql'
import { describe, expect, it } from 'vitest'
import { createFolder, createShop, createShopWithDead, SHOP } from './cli.ts'

const UNKNOWN = '019a3c1e-7b1f-7c33-9d52-0a4f6c1b2d3e'

describe('the commands', { timeout: 240_000 }, () => {
  it('carry a shop from its tables to its dead letters and back', async () => {
    const shop = await createShop()
    shop.write('shop.db', '')
    const behind = await shop.run(['status'])
    expect(behind.code).toBe(4)
    expect(behind.stderr).toContain(
      `the outbox tables of sqlite (such as "outbox_migrations" in ${join(shop.path, 'shop.db')}) do not exist yet: run posthaste migrate, or `,
    )
    expect(await shop.run(['migrate', '--status'])).toMatchObject({ code: 1 })
    expect((await shop.run(['migrate', '--sql'])).stdout).toContain('CREATE TABLE "outbox_events"')
    expect((await shop.run(['migrate', '--dry-run'])).stdout).toContain('would apply 4 migrations')
    expect((await shop.run(['db', 'setup', '--json'])).json).toMatchObject({
      ok: true,
      outboxes: [{ before: 0, current: 4 }],
    })

    const [good = ''] = await shop.publish(1)
    const bad = await shop.publish(3, 'ada')
    const waiting = await shop.run(['why', good, '--json'])
    expect(JSON.stringify(waiting.json)).toContain('was not started')

    expect((await shop.run(['consume-one', '--destinations', 'audit', '--json'])).json).toMatchObject({
      idle: false,
      done: 1,
    })
    expect(
      (await shop.run(['worker', '--once', '--limit', '2', '--log-level', 'silent', '--json'])).json,
    ).toMatchObject({ claimed: 2 })
    expect((await shop.run(['worker', '--once', '--log-level', 'silent', '--json'])).json).toMatchObject({
      claimed: 5,
    })
    expect((await shop.run(['consume-one', '--json'])).json).toMatchObject({ ok: true, idle: true })

    const status = (await shop.run(['status', '--json'])).json.outboxes[0]
    const mailer = status.destinations.find(({ name }: { name: string }) => name === 'mailer')
    expect(mailer).toMatchObject({ state: 'unserved', counts: { dead: 3, done: 1 } })

    const list = await shop.run(['events', 'list', '--status', 'dead', '--json'])
    expect(list.json.deliveries).toHaveLength(3)
    expect(JSON.stringify(list.json)).not.toContain('"payload"')
    const dead = await shop.run(['dead', 'list', '--json'])
    expect(dead.json).toMatchObject({ dead: 3, groups: [{ count: 3, destination: 'mailer' }] })
    const [{ fingerprint, sample }] = dead.json.groups
    const shown = await shop.run(['dead', 'show', sample, '--json'])
    expect(shown.json.attempts).toMatchObject([{ attempt: 1, code: 'POSTHASTE_PERMANENT' }])
    expect(shown.json.event.payload).toBeUndefined()
    expect(
      (await shop.run(['events', 'show', bad[0] ?? '', '--payload', '--json'])).json.event.payload,
    ).toEqual({ email: 'ada' })

    expect(
      (await shop.run(['dead', 'redrive', '--group', fingerprint, '--dry-run', '--json'])).json,
    ).toMatchObject({
      matched: 3,
      redriven: 0,
    })
    expect((await shop.run(['dead', 'redrive', bad[0] ?? '', '--json'])).json).toMatchObject({ redriven: 1 })
    await shop.run(['worker', '--once', '--log-level', 'silent'])
    const edited = await shop.run([
      'dead',
      'edit',
      bad[1] ?? '',
      '--payload',
      '{"email":"ada@example.org"}',
      '--json',
    ])
    expect(edited.json.ok).toBe(true)
    expect((await shop.run(['dead', 'discard', '--all'])).code).toBe(2)
    expect(
      (await shop.run(['dead', 'discard', '--all', '--reason', 'test data', '--json'])).json,
    ).toMatchObject({ discarded: 2 })
    expect((await shop.run(['dead', 'list'])).stdout).toContain('nothing is dead')
    expect((await shop.run(['why', bad[1] ?? ''])).stdout).toContain(
      `Event ${edited.json.eventId} took its place, as `,
    )
    expect((await shop.run(['why', bad[2] ?? ''])).stdout).toContain('gave it up: test data')

    expect((await shop.run(['pause', 'mailer', '--json'])).json).toMatchObject({ paused: true })
    expect((await shop.run(['why', edited.json.eventId])).stdout).toContain(
      'is paused: posthaste resume mailer',
    )
    expect((await shop.run(['worker', '--once', '--log-level', 'silent'])).stdout).toContain(
      'mailer is paused',
    )
    expect((await shop.run(['consume-one', '--json'])).json).toMatchObject({ idle: true, paused: ['mailer'] })
    expect((await shop.run(['resume', 'mailer'])).code).toBe(0)
    await shop.run(['worker', '--once'])
    expect((await shop.run(['why', good])).stdout).toContain('Delivered')

    expect((await shop.run(['replay', '--destination', 'audit', '--dry-run', '--json'])).json).toMatchObject({
      matched: 4,
    })
    expect((await shop.run(['replay', good, '--destination', 'audit', '--json'])).json).toMatchObject({
      replayed: 1,
    })
    const [other = ''] = await shop.publish(1)
    const late = await shop.run(['replay', other])
    expect(late).toMatchObject({
      code: 6,
      stderr: expect.stringContaining(`${other} is not done but pending`),
    })
    expect(await shop.run(['replay', good, '--destination', 'mailr'])).toMatchObject({ code: 5 })
    const tail = await shop.run(['events', 'tail', '--limit', '2', '--json'])
    expect(tail.stdout.trim().split('\n')).toHaveLength(3)

    const doctor = await shop.run(['doctor', '--json'])
    expect(doctor.code).toBe(1)
    expect(doctor.json.findings).toContainEqual(
      expect.objectContaining({
        check: 'worker alive',
        level: 'error',
        remedy: 'start your application, or posthaste worker with its configuration',
      }),
    )
    expect(
      (await shop.run(['cleanup', '--retention', '0', '--include-dead', '--once', '--json'])).json
        .outboxes[0],
    ).toMatchObject({
      dead: 0,
      more: false,
    })
    expect(await shop.run(['partitions', '--once'])).toMatchObject({ code: 6 })
  })

  it('say by whom an event was delivered, and which way', async () => {
    const shop = await createShop()
    const follow = "outbox.transaction((tx) => outbox.publish(tx, { type: 'invoice.sent', payload: {} }))"
    shop.write('shop.mjs', SHOP.replace('(event) => {', `async (event) => {\n  await ${follow}`))
    const [placed = ''] = await shop.publish(1)
    const worker = shop.start(['worker', '--log-level', 'silent'])
    const invoice = async () => {
      const listed = await shop.run([
        'events',
        'list',
        '--type',
        'invoice.sent',
        '--status',
        'done',
        '--json',
      ])
      return listed.json?.deliveries[0]?.eventId
    }
    let sent = await invoice()
    while (sent === undefined) sent = await invoice()
    const name = `[^ ]+:${worker.child.pid}`
    const settler = {
      worker: expect.stringMatching(name),
      workerId: expect.stringMatching(/^[0-9a-f-]{36}$/),
    }
    const hot = await shop.run(['why', sent, '--json'])
    expect(hot.json.deliveries).toMatchObject([{ settler: { ...settler, path: 'hot' } }])
    const { workerId } = hot.json.deliveries[0].settler
    expect(hot.json.deliveries[0].reasons[0]).toMatch(
      new RegExp(
        `^Delivered at .* by worker ${workerId} \\(${name}\\), straight after its commit; at the first`,
      ),
    )
    expect((await shop.run(['why', placed])).stdout).toMatch(
      new RegExp(`by worker ${workerId} \\(${name}\\), as the owner of its lane`),
    )
    worker.child.kill('SIGTERM')
    await worker.ended
    const gone = `by worker …${workerId.slice(-12)} (which has ended since), straight after its commit`
    expect((await shop.run(['why', sent])).stdout).toContain(gone)
    expect((await shop.run(['events', 'show', sent])).stdout).toContain(gone)
    expect((await shop.run(['events', 'show', placed, '--json'])).json.deliveries).toContainEqual(
      expect.objectContaining({ settledBy: workerId, settler: { workerId, worker: null, path: 'lane' } }),
    )
  })

  it('say since when a worker cannot reach a destination', async () => {
    const shop = await createShop()
    shop.write(
      'shop.mjs',
      SHOP.replace('PermanentError(', 'OutageError(').replace('PermanentError', 'OutageError'),
    )
    const [id = ''] = await shop.publish(3, 'ada')
    const before = Date.now()
    const worker = shop.start(['worker', '--set', 'laneLease=1s', '--log-level', 'silent'])
    const told = async () => {
      const { destinations } = (await shop.run(['status', '--json'])).json.outboxes[0]
      return destinations.find(({ name }: { name: string }) => name === 'mailer')?.openBreakers[0]
    }
    let first = await told()
    while (first === undefined) first = await told()
    const { worker: name, sinceMs } = first
    expect(name).toMatch(new RegExp(`:${worker.child.pid}$`))
    expect(sinceMs).toBeGreaterThanOrEqual(before)
    const since = new Date(sinceMs).toISOString().slice(0, 19)
    expect((await shop.run(['why', id])).stdout).toContain(`The breaker of ${name} is open since ${since}`)
    expect((await shop.run(['status'])).stdout).toMatch(/mailer +serving .* open \d+(\.\d)?m?s/)
    expect((await shop.run(['doctor', '--json'])).json.findings).toContainEqual(
      expect.objectContaining({ check: 'breakers', level: 'warning' }),
    )
  })

  it('say of one pass how many wait for a destination that cannot be reached, and why', async () => {
    const shop = await createShop()
    shop.write(
      'shop.mjs',
      SHOP.replace('PermanentError(', 'OutageError(').replace('PermanentError', 'OutageError'),
    )
    await shop.publish(4, 'ada')
    const pass = await shop.run(['worker', '--once'])
    expect(pass.code).toBe(0)
    expect(pass.stdout).toContain('4 done, 0 dead')
    expect(pass.stdout).toContain('mailer cannot be reached: 4 deliveries wait for it; the log says why')
    const lines = pass.stderr.split('\n').filter((line) => line.includes('cannot be reached'))
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { level: 'warn', destination: 'mailer', error: '"ada" is no address' },
    ])
    const again = ['worker', '--once', '--log-level', 'silent', '--json']
    expect((await shop.run(again)).json).toMatchObject({
      claimed: 0,
      unreachable: [{ destination: 'mailer', waiting: 4 }],
    })
    expect((await shop.run([...again, '--limit', '1'])).json.unreachable).toHaveLength(1)
    const one = await shop.run(['consume-one'])
    expect(one.code).toBe(1)
    expect(one.stdout).toMatch(/^failed: it waits, and spent no attempt\n {2}event .*, to mailer\n/)
    expect(one.stdout).toContain('it cannot be reached')
    const { json } = await shop.run(['consume-one', '--json'])
    expect(json).toMatchObject({ idle: false, claimed: 0 })
    expect(json.lastError).toContain('it cannot be reached')
  })

  it('say who left a lane behind, and when it is taken', async () => {
    const shop = await createShop()
    await shop.run(['migrate'])
    const first = shop.start(['worker', '--set', 'laneLease=5m', '--log-level', 'silent'])
    const alive = async () =>
      (await shop.run(['status', '--json'])).json.outboxes[0].workers.map(
        ({ name }: { name: string }) => name,
      )
    const worker = async ({ child }: typeof first): Promise<string> => {
      for (;;) {
        const name = (await alive()).find((one: string) => one.endsWith(`:${child.pid}`))
        if (name !== undefined) return name
      }
    }
    const gone = await worker(first)
    // Who reads for audit routes the event, and looks at the pauses before that.
    await shop.run(['pause', 'mailer'])
    const [id = ''] = await shop.publish(1)
    const why = async () => (await shop.run(['why', id])).stdout
    while ((await why()).includes('was not started')) {}
    first.child.kill('SIGKILL')
    await first.ended
    // As if it had ended a minute ago for the database.
    const hand = new Database(join(shop.path, 'shop.db'))
    hand.prepare('UPDATE outbox_workers SET expires_at = ?').run(Date.now() - 60_000)
    hand.close()
    const second = shop.start(['worker', '--log-level', 'silent'])
    await worker(second)
    const said = await why()
    expect(said).toMatch(new RegExp(`${gone} had its lane \\d+ when its lease ran out`))
    expect((await shop.run(['doctor', '--json'])).json.findings).toContainEqual(
      expect.objectContaining({ check: 'orphan lanes', level: 'warning' }),
    )
  })

  it('tune a destination, and give a new one what is older than it', async () => {
    const shop = await createShop()
    await shop.publish(2)
    await shop.run(['worker', '--once', '--log-level', 'silent'])
    expect((await shop.run(['tune', 'audit'])).stdout).toContain('as the options say')
    const tuned = await shop.run(['tune', 'audit', '--rate', '50', '--poll-interval', '250ms', '--json'])
    expect(tuned.json.outboxes[0].settings).toEqual({ ratePerSecond: 50, pollIntervalMs: 250 })
    const back = await shop.run(['tune', 'audit', '--rate', 'default', '--json'])
    expect(back.json.outboxes[0].settings).toEqual({ pollIntervalMs: 250 })
    expect(await shop.run(['tune', 'audit', '--concurrency', '0'])).toMatchObject({ code: 2 })
    expect(await shop.run(['tune', 'audit', '--concurrency', 'many'])).toMatchObject({ code: 2 })

    shop.write(
      'shop.mjs',
      SHOP.replace("audit: { events: ['*'] }", "audit: { events: ['*'] }, search: { events: ['*'] }"),
    )
    await shop.run(['worker', '--once', '--log-level', 'silent'])
    expect(await shop.run(['backfill', 'search'])).toMatchObject({ code: 2 })
    expect(await shop.run(['backfill', 'serch', '--since', '1d'])).toMatchObject({ code: 5 })
    const filled = await shop.run(['backfill', 'search', '--since', '1d', '--json'])
    expect(filled).toMatchObject({ code: 0, json: { added: 2, complete: true } })
    expect((await shop.run(['backfill', 'search', '--since', '1d', '--json'])).json).toMatchObject({
      added: 0,
    })
  })

  it('refuse what is not there', async () => {
    const shop = await createShop()
    await shop.run(['migrate'])
    expect(await shop.run(['why', UNKNOWN])).toMatchObject({ code: 5 })
    expect(await shop.run(['why', '42'])).toMatchObject({ code: 2 })
    expect(await shop.run(['dead', 'redrive', '--all'])).toMatchObject({ code: 5 })
    expect(await shop.run(['dead', 'redrive'])).toMatchObject({ code: 2 })
    const paused = await shop.run(['pause', 'mailr'])
    expect(paused).toMatchObject({ code: 5 })
    for (const list of ['events', 'dead']) {
      expect(await shop.run([list, 'list', '--destination', 'mailer'])).toMatchObject({ code: 0 })
      const listed = await shop.run([list, 'list', '--destination', 'nosuch'])
      expect(listed).toMatchObject({ code: 5, stdout: '' })
      expect(listed.stderr).toContain('there is no destination "nosuch"')
    }
    const tailed = await shop.run(['events', 'tail', '--destination', 'nosuch', '--limit', '1'])
    expect(tailed).toMatchObject({ code: 5, stdout: '' })
    expect(tailed.stderr).toContain('there is no destination "nosuch"')
  })

  it('explain the run that took the place of the one that is named', async () => {
    const shop = await createShopWithDead(1)
    const { json } = await shop.run(['dead', 'list', '--json'])
    const id = json.groups[0].sample
    expect(
      json.groups[0].lastDiedAt > (await shop.run(['dead', 'show', id, '--json'])).json.event.createdAt,
    ).toBe(true)
    expect((await shop.run(['dead', 'redrive', id])).code).toBe(0)
    for (const act of [['redrive'], ['discard', '--reason', 'late']]) {
      const late = await shop.run(['dead', ...act, id])
      expect(late).toMatchObject({ code: 6, stderr: expect.stringContaining('is not dead but discarded') })
    }
    const why = await shop.run(['why', id, '--json'])
    expect(why.json.deliveries).toMatchObject([
      { run: 1, status: 'discarded' },
      { run: 2, status: 'pending' },
    ])
    const story = (await shop.run(['events', 'show', id])).stdout
    expect(story).toContain('discarded for run 2')
    // Whose each attempt was.
    expect(story.slice(story.indexOf('Failed attempts'))).toMatch(/^at +destination +run +attempt/m)
    expect(story.slice(story.indexOf('Failed attempts'))).toMatch(/Z +mailer +1 +1 /)
    const tried = await shop.run(['consume-one', '--destinations', 'mailer'])
    expect(tried.code).toBe(1)
    expect(tried.stdout).toContain(`event ${why.json.eventId}, to mailer`)
    expect(tried.stdout).toContain('"ada" is no address')
  })

  it('make no file where there is none', async () => {
    const folder = createFolder()
    const looks = ['status', 'doctor', 'events', 'import --dry-run']
    for (const look of [...looks, `why ${UNKNOWN}`]) {
      const ended = await folder.run([...look.split(' '), '--url', 'sqlite:nosuch.db'])
      expect([look, ended.code]).toEqual([look, look === 'doctor' ? 1 : 4])
      expect(ended.stdout + ended.stderr).toContain(`there is no file ${join(folder.path, 'nosuch.db')}`)
    }
    const status = await folder.run(['migrate', '--status', '--url', 'sqlite:nosuch.db'])
    expect(status).toMatchObject({ code: 1, stdout: expect.stringContaining('at version 0 of') })
    const wouldDo = await folder.run(['migrate', '--dry-run', '--url', 'sqlite:nosuch.db'])
    expect(wouldDo).toMatchObject({ code: 0, stdout: expect.stringContaining('would apply') })
    expect(await folder.run(['migrate', '--dry-run', '--url', 'sqlite:nodir/x.db'])).toMatchObject({
      code: 4,
    })
    expect(readdirSync(folder.path)).toEqual(['node_modules'])
    expect((await folder.run(['migrate', '--url', 'sqlite:nosuch.db'])).code).toBe(0)
  })

  it('stop a bulk redrive between two steps, with nothing half done', async () => {
    // A minute's work, so that a busy machine stops it in time.
    const all = 60
    const shop = await createShopWithDead(all)
    const { child, ended } = shop.start(['dead', 'redrive', '--all', '--per-second', '1', '--json'])
    // The first step is one delivery, and is seen from outside when it is committed.
    for (;;) {
      const { json } = await shop.run(['status', '--json'])
      const mailer = json.outboxes[0].destinations.find(({ name }: { name: string }) => name === 'mailer')
      if (mailer.counts.dead < all) break
    }
    child.kill('SIGINT')
    const { code, json, stderr } = await ended
    expect({ code, ok: json.ok }).toEqual({ code: 130, ok: false })
    const [, redriven, left] =
      /stopped: (\d+) deliver\w+ redriven, (\d+) deliver\w+ not touched/.exec(stderr) ?? []
    expect(Number(redriven) + Number(left)).toBe(all)
    expect(json).toMatchObject({ matched: all, redriven: Number(redriven) })
    const runs = async (): Promise<readonly string[]> => {
      const list = ['events', 'list', '--destination', 'mailer', '--limit', '200', '--json']
      const { deliveries } = (await shop.run(list)).json
      return deliveries.map(({ run, status }: { run: number; status: string }) => `${run} ${status}`).sort()
    }
    const times = (count: number, text: string): readonly string[] => Array<string>(count).fill(text)
    // A step is the end of the dead run and the beginning of the next: both, or neither.
    expect(await runs()).toEqual([
      ...times(Number(left), '1 dead'),
      ...times(Number(redriven), '1 discarded'),
      ...times(Number(redriven), '2 pending'),
    ])
    const rest = await shop.run(['dead', 'redrive', '--all', '--json'])
    expect(rest.json).toMatchObject({ matched: Number(left), redriven: Number(left) })
    expect(await runs()).toEqual([...times(all, '1 discarded'), ...times(all, '2 pending')])
  })
})
