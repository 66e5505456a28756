import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OutageError, PermanentError, RetryAfter } from '../errors.ts'
import { type ClassifyOptions, classify, type FailureClassifier, type Verdict } from './failure.ts'

const info = { attempt: 1, type: 'order.placed', destination: 'kafka' }
const judge = (error: unknown, options: Partial<ClassifyOptions> = {}) =>
  classify(error, info, { from: 'publisher', ...options })
const withCode = (code: string) => Object.assign(new Error(code), { code })
const wrapped = (error: unknown, times: number): unknown =>
  times === 0 ? error : new Error('wrapped', { cause: wrapped(error, times - 1) })

const RETRY = { verdict: 'retry', counted: true }
const OUTAGE = { verdict: 'outage', counted: false }

describe('classify', () => {
  it('retries whatever it does not know, errors or not', () => {
    const odd = [
      new Error('x'),
      'text',
      7,
      undefined,
      null,
      Symbol('s'),
      () => 1,
      Object.fromEntries([['then', () => 1]]),
      [],
    ]
    for (const error of odd) {
      expect(judge(error)).toEqual(RETRY)
      expect(judge(error, { from: 'listener' })).toEqual(RETRY)
    }
  })

  it('never throws and always gives a verdict, for every value there is', () => {
    fc.assert(
      fc.property(
        fc.anything(),
        fc.constantFrom('publisher' as const, 'listener' as const),
        (error, from) => {
          expect(['retry', 'dead', 'outage']).toContain(judge(error, { from }).verdict)
        },
      ),
    )
    const hostile = new Proxy(new Error('x'), {
      get() {
        throw new Error('boom')
      },
    })
    expect(judge(hostile)).toEqual(RETRY)
  })

  it('buries a permanent error, whatever the classifier says', () => {
    const custom = () => 'retry' as const
    expect(judge(new PermanentError('no'), { custom })).toEqual({ verdict: 'dead', counted: true })
  })

  it('knows the errors of another copy of this package by their brand', () => {
    expect(judge({ [Symbol.for('posthaste.permanent')]: true })).toMatchObject({ verdict: 'dead' })
  })

  it('waits as long as a RetryAfter asks, and spends an attempt only if it says so', () => {
    expect(judge(new RetryAfter(1500))).toEqual({ verdict: 'retry', delayMs: 1500, counted: true })
    expect(judge(new RetryAfter(5, { counted: false }))).toEqual({
      verdict: 'retry',
      delayMs: 5,
      counted: false,
    })
  })

  it.each([
    [-5, 0],
    [1.6, 2],
    [Number.POSITIVE_INFINITY, 366 * 24 * 3_600_000],
    [Number.NaN, undefined],
    ['5' as unknown as number, undefined],
  ])('makes sense of a RetryAfter of %s', (delayMs, expected) => {
    expect(judge(new RetryAfter(delayMs)).delayMs).toBe(expected)
  })

  it.each([
    'ECONNREFUSED',
    'ECONNRESET',
    'EPIPE',
    'ETIMEDOUT',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'ENOTFOUND',
    'EAI_AGAIN',
  ])('takes %s of a publisher for an outage, but of a listener for a failure', (code) => {
    expect(judge(withCode(code))).toEqual(OUTAGE)
    expect(judge(withCode(code), { from: 'listener' })).toEqual(RETRY)
  })

  it('looks through five causes and no further', () => {
    expect(judge(wrapped(withCode('ECONNREFUSED'), 5))).toEqual(OUTAGE)
    expect(judge(wrapped(withCode('ECONNREFUSED'), 6))).toEqual(RETRY)
    expect(judge(wrapped({ outage: true }, 1))).toEqual(OUTAGE)
    expect(judge({ outage: 'yes' })).toEqual(RETRY)
  })

  it('is not caught by causes that form a circle', () => {
    const a: { cause?: unknown } = {}
    a.cause = { cause: a }
    expect(judge(a)).toEqual(RETRY)
  })

  it('believes an OutageError from either side', () => {
    expect(judge(new OutageError('gone'))).toEqual(OUTAGE)
    expect(judge(wrapped(new OutageError('gone'), 1))).toEqual(OUTAGE)
    expect(judge(new OutageError('gone'), { from: 'listener' })).toEqual(OUTAGE)
  })

  it.each<[Verdict, boolean]>([
    ['retry', true],
    ['dead', true],
    ['outage', false],
  ])('lets the classifier decide on %s', (verdict, counted) => {
    const seen: unknown[] = []
    const custom: FailureClassifier = (error, about) => {
      seen.push(error, about)
      return verdict
    }
    expect(judge('oops', { custom, from: 'listener' })).toEqual({ verdict, counted })
    expect(seen).toEqual(['oops', info])
  })

  it('goes on by itself when the classifier has no opinion', () => {
    expect(judge(withCode('EPIPE'), { custom: () => undefined })).toEqual(OUTAGE)
  })

  it('retries and reports when the classifier throws, answers nonsense or is asynchronous', async () => {
    const bad: unknown[] = [
      () => {
        throw new Error('boom')
      },
      () => 'later',
      () => null,
      () => Promise.reject(new Error('never handled')),
    ]
    const reported: unknown[] = []
    for (const custom of bad as FailureClassifier[]) {
      const options = { custom, onClassifierError: (error: unknown) => reported.push(error) }
      expect(judge(withCode('EPIPE'), options)).toEqual(RETRY)
    }
    expect(reported).toHaveLength(4)
    expect(reported.every((error) => error instanceof Error)).toBe(true)
    // An unhandled rejection would fail the run after this turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve))
  })

  it('survives a reporter that throws', () => {
    const boom = () => {
      throw new Error('boom')
    }
    expect(judge('x', { custom: boom, onClassifierError: boom })).toEqual(RETRY)
  })
})
