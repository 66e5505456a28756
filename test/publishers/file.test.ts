import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  closeSync,
  constants,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ROOT } from '../../scripts/run.ts'
import type { Publisher } from '../../src/core/spi/index.ts'
import { filePublisher } from '../../src/publishers/file.ts'
import { PublisherFixture } from '../../src/testing/suites/publisher-fixture.ts'
import { testPublisher } from './run.ts'

testPublisher('file')

describe('a file in particular', () => {
  let folder: string
  let path: string
  let t: PublisherFixture
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'posthaste-file-'))
    path = join(folder, 'events.ndjson')
    t = new PublisherFixture({ topic: 'orders' } as never)
  })
  afterEach(async () => {
    await t.close()
    vi.restoreAllMocks()
    rmSync(folder, { recursive: true, force: true })
  })

  const start = (): Publisher => t.closing(filePublisher({ path }))
  const send = async (publisher: Publisher, n: number): Promise<string> =>
    t.verdict((await t.send(publisher, [t.delivery({ data: String(n) })]))[0])
  const numbers = (file = path): number[] =>
    readFileSync(file, 'utf8')
      .split('\n')
      .slice(0, -1)
      .map((line) => (JSON.parse(line) as { data: number }).data)

  it('has nothing of a key behind one that no line can be made of', async () => {
    const results = await t.send(start(), [
      t.delivery({ data: '1', key: 'k' }),
      t.delivery({ data: '2', key: 'k', occurredAtMs: Number.NaN }),
      t.delivery({ data: '3', key: 'k' }),
      t.delivery({ data: '4', key: 'l' }),
    ])
    expect(results.map((result) => t.verdict(result))).toEqual(['done', 'dead', 'retry', 'done'])
    expect(results[2]).toMatchObject({ error: { counted: false } })
    expect(numbers()).toEqual([1, 4])
  })

  it('has one batch written after the other, in the order in which they were sent', async () => {
    const publisher = start()
    const probe = await open(join(folder, 'probe'), 'w')
    const prototype = Object.getPrototypeOf(probe) as FileHandle
    await probe.close()
    const write = prototype.write
    let atOnce = 0
    let most = 0
    vi.spyOn(prototype, 'write').mockImplementation(async function (this: FileHandle, ...args: unknown[]) {
      atOnce += 1
      most = Math.max(most, atOnce)
      const result = await (write as (...all: unknown[]) => Promise<never>).apply(this, args)
      atOnce -= 1
      return result
    } as never)
    const order = Array.from({ length: 10 }, (_, n) => n)
    expect(await Promise.all(order.map((n) => send(publisher, n)))).toEqual(order.map(() => 'done'))
    expect([most, numbers()]).toEqual([1, order])
  })

  it('that is moved away or deleted is made anew: what is sent stands in the file of that name', async () => {
    const publisher = start()
    await send(publisher, 1)
    renameSync(path, `${path}.1`)
    await send(publisher, 2)
    expect([numbers(`${path}.1`), numbers()]).toEqual([[1], [2]])
    unlinkSync(path)
    await send(publisher, 3)
    expect(numbers()).toEqual([3])
  })

  it('that cannot be written is an outage, and is found when it can', async () => {
    path = join(folder, 'later', 'events.ndjson')
    const publisher = start()
    expect(await send(publisher, 1)).toBe('outage')
    mkdirSync(join(folder, 'later'))
    expect(await send(publisher, 2)).toBe('done')
    expect(numbers()).toEqual([2])
  })

  it('that ends in half a line, as a crash leaves it, gets a new one', async () => {
    writeFileSync(path, '{"data":1}\n{"da')
    await send(start(), 2)
    expect(readFileSync(path, 'utf8')).toMatch(/^\{"data":1\}\n\{"da\n\{.*"data":2\}\n$/)
  })

  /** The disk is full after so many bytes of the next write. */
  const fillUp = async (after: number, meanwhile = (): void => undefined): Promise<void> => {
    const probe = await open(join(folder, 'probe'), 'w')
    const prototype = Object.getPrototypeOf(probe) as FileHandle
    await probe.close()
    const write = prototype.write
    let isFull = false
    vi.spyOn(prototype, 'write').mockImplementation(async function (this: FileHandle, ...args: unknown[]) {
      if (isFull) {
        vi.restoreAllMocks()
        meanwhile()
        throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
      }
      isFull = true
      return await (write as (...all: unknown[]) => Promise<never>).call(this, args[0], args[1], after)
    } as never)
  }

  it('on a disk that is full has no half line, and no attempt is spent', async () => {
    const publisher = start()
    await send(publisher, 1)
    await fillUp(10)
    expect(await send(publisher, 2)).toBe('outage')
    expect(numbers()).toEqual([1])
    expect(await send(publisher, 3)).toBe('done')
    expect(numbers()).toEqual([1, 3])
  })

  it('on a disk that is full loses nothing of what another process wrote', async () => {
    const publisher = start()
    await send(publisher, 1)
    await fillUp(10, () => appendFileSync(path, '\n{"data":7}\n'))
    expect(await send(publisher, 2)).toBe('outage')
    expect(await send(publisher, 3)).toBe('done')
    const lines = readFileSync(path, 'utf8').split('\n')
    expect(lines.filter((line) => /"data":(1|7|3)\}$/.test(line))).toHaveLength(3)
  })

  it('whose disk does not answer is an outage, and keeps nobody from closing', async () => {
    const publisher = start()
    await send(publisher, 1)
    const probe = await open(join(folder, 'probe'), 'w')
    const stop = new AbortController()
    vi.spyOn(Object.getPrototypeOf(probe) as FileHandle, 'write').mockImplementation(() => {
      stop.abort(new Error('no time left'))
      return new Promise<never>(() => undefined)
    })
    await probe.close()
    const sending = publisher.send([t.delivery()], { signal: stop.signal })
    await expect(sending).rejects.toMatchObject({ code: 'POSTHASTE_OUTAGE' })
    await publisher.close?.()
  })
})

describe('a pipe in particular', () => {
  let folder: string
  let path: string
  const t = new PublisherFixture({ topic: 'orders' } as never)
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'posthaste-pipe-'))
    path = join(folder, 'pipe')
    execFileSync('mkfifo', [path])
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  /** Has it open, and reads no more than it can keep until it is asked to. */
  const read = (): Socket => {
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    return new Socket({ fd, readable: true, writable: false })
  }
  const send = async (publisher: Publisher, data: string, timeoutMs?: number): Promise<string> =>
    t.verdict((await t.send(publisher, [t.delivery({ data })], timeoutMs))[0])
  const linesOf = (written: string): unknown[] =>
    written
      .split('\n')
      .slice(0, -1)
      .filter((line) => line !== '')
      .map((line) => (JSON.parse(line) as { data: unknown }).data)

  it('begins a new line when it is opened, because a half of one may be in it', async () => {
    const reader = read()
    // While somebody can write, a reader does not take what it has for all that comes.
    const open = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK)
    const cut = filePublisher({ path })
    expect(await send(cut, JSON.stringify('x'.repeat(1_000_000)), 100)).toBe('outage')
    await cut.close?.()
    const publisher = filePublisher({ path })
    let got = ''
    reader.on('data', (part) => {
      got += String(part)
    })
    expect(await send(publisher, '2')).toBe('done')
    // An empty line, the half, and the next one.
    while (got.split('\n').length <= 3) await new Promise((resolve) => setImmediate(resolve))
    reader.destroy()
    closeSync(open)
    expect(JSON.parse(got.split('\n').at(-2) ?? '')).toMatchObject({ data: 2 })
    await publisher.close?.()
  })

  it('has the lines, and is found again when its reader comes back, or when it is another one', async () => {
    const publisher = filePublisher({ path })
    expect(await send(publisher, '1')).toBe('outage')
    const first = read()
    expect([await send(publisher, '2'), await send(publisher, '3')]).toEqual(['done', 'done'])
    let got = ''
    for await (const part of first) {
      got += String(part)
      if (linesOf(got).length === 2) break
    }
    expect(linesOf(got)).toEqual([2, 3])
    expect(first.destroyed).toBe(true)
    expect(await send(publisher, '4')).toBe('outage')
    const second = read()
    expect(await send(publisher, '5')).toBe('done')
    unlinkSync(path)
    expect(await send(publisher, '6')).toBe('done')
    expect(linesOf(readFileSync(path, 'utf8'))).toEqual([6])
    await publisher.close?.()
    // Up to the end, which there is once nobody has it open for writing.
    expect(linesOf(await text(second))).toEqual([5])
  })

  it('whose reader is stuck is an outage, and is let go of when the publisher is closed', async () => {
    const reader = read()
    const publisher = filePublisher({ path })
    const large = JSON.stringify('x'.repeat(1_000_000))
    expect([await send(publisher, large, 100), await send(publisher, '2', 100)]).toEqual(['outage', 'outage'])
    await publisher.close?.()
    const left = await text(reader)
    expect(left.length).toBeGreaterThan(0)
    expect(left.length).toBeLessThan(large.length)
  })

  it('whose reader is stuck keeps nobody waiting once there is another one of that name', async () => {
    const stuck = read()
    const publisher = filePublisher({ path })
    const sending = send(publisher, JSON.stringify('x'.repeat(1_000_000)), 100)
    // On a busy machine it may be given up before it is begun.
    await once(stuck, 'readable')
    expect(await sending).toBe('outage')
    unlinkSync(path)
    execFileSync('mkfifo', [path])
    const reader = read()
    expect(await send(publisher, '2')).toBe('done')
    await publisher.close?.()
    expect(linesOf(await text(reader))).toEqual([2])
    stuck.destroy()
  })

  it('whose reader is stuck keeps nobody waiting who is for a file of that name', async () => {
    const stuck = read()
    const publisher = filePublisher({ path })
    const sending = send(publisher, JSON.stringify('x'.repeat(1_000_000)), 100)
    // On a busy machine it may be given up before it is begun.
    await once(stuck, 'readable')
    expect(await sending).toBe('outage')
    unlinkSync(path)
    expect(await send(publisher, '2')).toBe('done')
    await publisher.close?.()
    expect(linesOf(readFileSync(path, 'utf8'))).toEqual([2])
    stuck.destroy()
  })

  it('whose reader reads on has every line whole, also those that were given up', async () => {
    const reader = read()
    const publisher = filePublisher({ path })
    const large = JSON.stringify('x'.repeat(200_000))
    expect(await send(publisher, large, 100)).toBe('outage')
    const whole = text(reader)
    expect(await send(publisher, '2')).toBe('done')
    await publisher.close?.()
    expect(linesOf(await whole)).toEqual(['x'.repeat(200_000), 2])
  })
})

describe('standard output in particular', () => {
  it('keeps nothing of what was given up while it waited behind a reader that is stuck', async () => {
    const script = `
      import { setFlagsFromString } from 'node:v8'
      import { runInNewContext } from 'node:vm'
      import { stdoutPublisher } from './src/publishers/file.ts'
      import { PublisherFixture } from './src/testing/suites/publisher-fixture.ts'
      setFlagsFromString('--expose-gc')
      const collect = runInNewContext('gc')
      const t = new PublisherFixture({ topic: 'orders' })
      const publisher = stdoutPublisher()
      const send = async () => {
        const data = JSON.stringify('x'.repeat(1_000_000) + Math.random())
        return t.verdict((await t.send(publisher, [t.delivery({ data })], 10))[0])
      }
      const verdicts = new Set([await send()])
      collect()
      const before = process.memoryUsage().heapUsed
      for (let n = 0; n < 50; n += 1) verdicts.add(await send())
      collect()
      const grown = process.memoryUsage().heapUsed - before
      console.error([...verdicts].join(), grown < 10_000_000 ? 'kept nothing' : 'kept ' + grown)
      process.exit(7)`
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
      cwd: ROOT,
    })
    let said = ''
    child.stderr.on('data', (part: Buffer) => {
      said += part.toString()
    })
    const [code] = await once(child, 'exit')
    expect({ code, said }).toEqual({ code: 7, said: 'outage kept nothing\n' })
  })

  it('that nobody reads any more is an outage, and does not end the process', async () => {
    const script = `
      import { stdoutPublisher } from './src/publishers/file.ts'
      import { PublisherFixture } from './src/testing/suites/publisher-fixture.ts'
      const t = new PublisherFixture({ topic: 'orders' })
      const publisher = stdoutPublisher()
      const send = async () => t.verdict((await t.send(publisher, [t.delivery()]))[0])
      process.stdin.once('data', async () => {
        console.error(await send(), await send())
        process.exit(7)
      })
      console.error(await send())`
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
      cwd: ROOT,
    })
    let said = ''
    child.stderr.on('data', (part: Buffer) => {
      said += part.toString()
    })
    await once(child.stdout, 'data')
    child.stdout.destroy()
    child.stdin.write('go\n')
    const [code] = await once(child, 'exit')
    expect({ code, said }).toEqual({ code: 7, said: 'done\noutage outage\n' })
  })

  it('whose reader is stuck is an outage, and keeps nobody from closing', async () => {
    const script = `
      import { stdoutPublisher } from './src/publishers/file.ts'
      import { PublisherFixture } from './src/testing/suites/publisher-fixture.ts'
      const t = new PublisherFixture({ topic: 'orders' })
      const publisher = stdoutPublisher()
      const data = JSON.stringify('x'.repeat(5_000_000))
      console.error(t.verdict((await t.send(publisher, [t.delivery({ data })], 100))[0]))
      await publisher.close()
      process.exit(7)`
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
      cwd: ROOT,
    })
    let said = ''
    child.stderr.on('data', (part: Buffer) => {
      said += part.toString()
    })
    const [code] = await once(child, 'exit')
    expect({ code, said }).toEqual({ code: 7, said: 'outage\n' })
  })
})
