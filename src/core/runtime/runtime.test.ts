import { inspect } from 'node:util'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Metrics } from '../spi/index.ts'
import { createJsonLogger, guardedLogger, SILENT_LOGGER } from './logger.ts'
import { createCountingMetrics, guardedMetrics, NOOP_METRICS } from './metrics.ts'
import { createSystemRuntime, LONGEST_TIMER_MS } from './system-runtime.ts'

describe('the system runtime', () => {
  afterEach(() => {
    vi.restoreAllMocks()
  })

  it('[28] cuts waits to the range of a timer, so that a long one does not fire at once', () => {
    const timer = vi.spyOn(globalThis, 'setTimeout')
    const runtime = createSystemRuntime()
    const asked = [2 ** 40, Number.POSITIVE_INFINITY, LONGEST_TIMER_MS, 1.2, 0, -5, Number.NaN]
    for (const delay of asked) runtime.schedule(delay, () => undefined)()
    expect(timer.mock.calls.map(([, delay]) => delay)).toEqual([
      LONGEST_TIMER_MS,
      LONGEST_TIMER_MS,
      LONGEST_TIMER_MS,
      2,
      0,
      0,
      0,
    ])
  })

  it('runs what is scheduled once, and not when it was cancelled', async () => {
    const runtime = createSystemRuntime()
    const calls: string[] = []
    runtime.schedule(1, () => void calls.push('cancelled'))()
    await new Promise<void>((resolve) => {
      runtime.schedule(5, () => {
        calls.push('ran')
        resolve()
      })
    })
    await runtime.yield()
    expect(calls).toEqual(['ran'])
  })

  it('does not keep a process alive for background work', () => {
    const timer = vi.spyOn(globalThis, 'setTimeout')
    const cancel = createSystemRuntime().schedule(1_000, () => undefined, { background: true })
    expect(timer.mock.results.map(({ value }) => (value as NodeJS.Timeout).hasRef())).toEqual([false])
    cancel()
  })

  it('names the process and draws chance', () => {
    const runtime = createSystemRuntime()
    expect(runtime.processName).toMatch(/.+:\d+$/)
    expect(runtime.randomBytes(16)).toHaveLength(16)
    expect(runtime.random()).toBeLessThan(1)
    expect(runtime.monotonicNow()).toBeLessThanOrEqual(runtime.monotonicNow())
  })
})

describe('the JSON logger', () => {
  const lines = (level?: 'debug' | 'warn') => {
    const written: Record<string, unknown>[] = []
    const logger = createJsonLogger({
      write: (line) => void written.push(JSON.parse(line)),
      wallNow: () => 0,
      ...(level === undefined ? {} : { level }),
    })
    return { logger, written }
  }

  it('writes one object per line, errors with their code', () => {
    const { logger, written } = lines()
    logger.log('debug', 'unheard')
    const error = Object.assign(new Error('broken', { cause: new Error('root') }), { code: 'E1' })
    logger.log('error', 'text', { error, seq: 5n, message: 'cannot win' })
    expect(written).toMatchObject([
      {
        time: '1970-01-01T00:00:00.000Z',
        level: 'error',
        message: 'text',
        error: { name: 'Error', code: 'E1', message: 'broken', cause: 'Error: root' },
        seq: '5',
      },
    ])
  })

  it('still writes the message when a field cannot be written', () => {
    const { logger, written } = lines()
    const cycle: Record<string, unknown> = {}
    cycle.self = cycle
    logger.log('info', 'text', cycle)
    expect(written).toMatchObject([{ message: 'text', fields: 'could not be written as JSON' }])
  })

  it('bounds the length of texts', () => {
    const { logger, written } = lines()
    logger.log('info', 'text', { long: 'x'.repeat(100_000) })
    expect(String(written[0]?.long).length).toBeLessThanOrEqual(4_001)
  })

  it('can be guarded: a logger that throws disturbs nobody', () => {
    const broken = guardedLogger({
      log: () => {
        throw new Error('full disk')
      },
    })
    expect(() => broken.log('info', 'text')).not.toThrow()
    expect(SILENT_LOGGER.log('info', 'text')).toBeUndefined()
  })
})

describe('metrics', () => {
  it('count, remember gauges and observe durations', () => {
    const metrics = createCountingMetrics()
    metrics.dispatchSuccess('a', 2)
    metrics.dispatchSuccess('b', 3)
    metrics.queueDepths('a', 4, 5)
    metrics.observeLatency('a', 10)
    metrics.observeLatency('a', 30)
    metrics.breakerState('a', 'open')
    expect(metrics.count('dispatchSuccess')).toBe(5)
    expect(metrics.count('dispatchSuccess', 'b')).toBe(3)
    expect([metrics.gauge('hotQueueDepth', 'a'), metrics.gauge('coldQueueDepth', 'a')]).toEqual([4, 5])
    expect(metrics.gauge('setPending', 'a')).toBeUndefined()
    expect(metrics.observations('observeLatency', 'a')).toEqual({ count: 2, sum: 40, max: 30 })
    expect(metrics.breaker('a')).toBe('open')
  })

  it('that throw disturbs nobody, and every method is passed on with its object', () => {
    class Own {
      calls = 0
    }
    const own = new Own() as Own & Record<string, unknown>
    for (const name of Object.keys(NOOP_METRICS)) {
      own[name] = function (this: Own) {
        this.calls += 1
        throw new Error('broken')
      }
    }
    const guarded = guardedMetrics(own as unknown as Metrics)
    guarded.hotDropped('a', 1)
    guarded.breakerState('a', 'open')
    expect(own.calls).toBe(2)
  })
})

describe('a guarded logger', () => {
  const given: (Readonly<Record<string, unknown>> | undefined)[] = []
  const guarded = guardedLogger({ log: (_level, _message, fields) => void given.push(fields) })

  it('passes on errors of the same class and code, with passwords masked and nothing else of theirs', () => {
    const cause = new Error('at redis://:hunter2@cache')
    const error = Object.assign(new TypeError('postgres://u:hunter2@db', { cause }), {
      code: 'E1',
      input: 'hunter2',
    })
    guarded.log('error', 'text', { error, text: 'password=hunter2', count: 5 })
    const passed = given[0] as { readonly error: Error & { readonly code: string } }
    expect(passed).toMatchObject({ text: 'password=***', count: 5 })
    expect(passed.error).toBeInstanceOf(TypeError)
    expect([passed.error.message, passed.error.code]).toEqual(['postgres://u:***@db', 'E1'])
    expect(inspect(given, { depth: 9, showHidden: true })).not.toContain('hunter2')
  })

  it('tells what comes once a batch only to loggers that say they want it', () => {
    expect(guarded.isEnabled?.('debug')).toBe(false)
    expect(guarded.isEnabled?.('info')).toBe(true)
    const wanting = createJsonLogger({ write: () => undefined, wallNow: () => 0, level: 'debug' })
    expect(guardedLogger(wanting).isEnabled?.('debug')).toBe(true)
  })
})
