import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidOptionError } from '../errors.ts'
import { BREAKER_DEFAULTS, type BreakerOptions, createBreaker } from './breaker.ts'

const longest = () => 1
const shortest = () => 0
const openBreaker = (options: Partial<BreakerOptions> = {}, random = longest) => {
  const breaker = createBreaker({ threshold: 1, ...options }, random)
  breaker.onOutage('first', 0)
  return breaker
}

describe('a breaker', () => {
  it('opens after three outages in a row, and any answer starts the count anew', () => {
    const breaker = createBreaker({}, longest)
    breaker.onOutage('a', 0)
    breaker.onOutage('b', 0)
    breaker.onRefusal('c', 0)
    breaker.onOutage('a', 0)
    expect(breaker.onOutage('b', 0)).toMatchObject({ opened: false })
    expect(breaker.allows(0)).toBe('all')
    expect(breaker.onOutage('c', 0)).toMatchObject({ opened: true })
    expect(breaker.allows(0)).toBe('none')
    expect(breaker.admit('a', 0)).toBe(false)
    expect(breaker.waitMs(0)).toBe(1000)
  })

  it('is half-open when its time is over, and lets one delivery through at a time', () => {
    const breaker = openBreaker()
    expect(breaker.allows(999)).toBe('none')
    expect(breaker.allows(1000)).toBe('one')
    expect(breaker.admit('probe', 1000)).toBe(true)
    expect(breaker.allows(1000)).toBe('none')
    expect(breaker.admit('other', 1000)).toBe(false)
    expect(breaker.waitMs(1000)).toBe(1000)
    expect(breaker.onSuccess('probe', 1010)).toEqual({ recovered: true })
    expect(breaker.state(1010)).toBe('closed')
  })

  it('says since when it is not closed, whatever its probes did meanwhile', () => {
    const breaker = openBreaker()
    expect(breaker.openForMs(300)).toBe(300)
    breaker.admit('probe', 1000)
    expect(breaker.openForMs(1000)).toBe(1000)
    breaker.onOutage('probe', 1010)
    expect(breaker.openForMs(2000)).toBe(2000)
    breaker.admit('again', 3010)
    breaker.onSuccess('again', 3020)
    expect(breaker.openForMs(3020)).toBeNull()
    breaker.onOutage('anew', 4000)
    expect(breaker.openForMs(4001)).toBe(1)
  })

  it('stays open twice as long each time its probe fails, up to its longest', () => {
    const breaker = openBreaker()
    const waits: number[] = []
    let nowMs = 0
    for (let i = 0; i < 7; i++) {
      const waitMs = breaker.waitMs(nowMs)
      waits.push(waitMs)
      nowMs += waitMs
      expect(breaker.admit(`d${i}`, nowMs)).toBe(true)
      expect(breaker.onOutage(`d${i}`, nowMs)).toMatchObject({ opened: true })
    }
    expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000])
  })

  it('shortens its open time at random by up to half, never below its shortest', () => {
    const breaker = openBreaker({}, shortest)
    expect(breaker.waitMs(0)).toBe(1000)
    breaker.admit('a', 1000)
    breaker.onOutage('a', 1000)
    expect(breaker.waitMs(1000)).toBe(1000)
    breaker.admit('b', 2000)
    breaker.onOutage('b', 2000)
    expect(breaker.waitMs(2000)).toBe(2000)
  })

  it('begins with its shortest time again once it was closed', () => {
    const breaker = openBreaker()
    breaker.admit('a', 1000)
    breaker.onOutage('a', 1000)
    breaker.admit('b', 3000)
    breaker.onSuccess('b', 3000)
    breaker.onOutage('c', 3000)
    expect(breaker.waitMs(3000)).toBe(1000)
  })

  it('closes only after as many answers in a row as it was told, refusals included', () => {
    const breaker = openBreaker({ closeAfter: 2 })
    breaker.admit('a', 1000)
    expect(breaker.onRefusal('a', 1000)).toEqual({ recovered: false })
    expect(breaker.allows(1000)).toBe('one')
    breaker.admit('b', 1000)
    expect(breaker.onSuccess('b', 1000)).toEqual({ recovered: true })
  })

  it('does not let late results of earlier sends decide while a probe runs', () => {
    const breaker = openBreaker()
    breaker.onSuccess('late', 10)
    expect(breaker.state(10)).toBe('open')
    breaker.admit('probe', 1000)
    breaker.onSuccess('late', 1001)
    breaker.onOutage('late too', 1001)
    expect(breaker.snapshot(1001)).toMatchObject({ state: 'halfOpen', probe: 'probe' })
  })

  it('takes any result for the probe’s when its caller sends one at a time without admit', () => {
    const breaker = openBreaker()
    expect(breaker.allows(1000)).toBe('one')
    expect(breaker.onOutage('x', 1000)).toMatchObject({ opened: true })
    expect(breaker.onSuccess('y', 3000)).toEqual({ recovered: true })
  })

  it('frees the place of a probe that was not sent after all', () => {
    const breaker = openBreaker()
    breaker.admit('probe', 1000)
    breaker.forget('probe')
    expect(breaker.allows(1000)).toBe('one')
  })

  it('shows what it knows', () => {
    expect(createBreaker({}, longest).snapshot(0)).toEqual({
      state: 'closed',
      outagesInARow: 0,
      openings: 0,
      waitMs: 0,
      probe: null,
      suspects: 0,
    })
    expect(openBreaker().snapshot(400)).toMatchObject({
      state: 'open',
      openings: 1,
      waitMs: 600,
      suspects: 1,
    })
  })

  it.each([
    { threshold: 0 },
    { threshold: 1.5 },
    { closeAfter: 0 },
    { chargeAfter: 1 },
    { openMs: 0 },
    { openMs: 2000, maxOpenMs: 1999 },
    { maxOpenMs: Number.POSITIVE_INFINITY },
    { threshold: '3' as unknown as number },
  ])('refuses %j', (options) => {
    expect(() => createBreaker(options, longest)).toThrow(InvalidOptionError)
  })
})

describe('charging', () => {
  const closed = () => createBreaker({ threshold: 1000 }, longest)

  it('falls on the delivery that breaks the connection a third time while others pass', () => {
    const breaker = closed()
    const charges: boolean[] = []
    for (let i = 0; i < 5; i++) {
      charges.push(breaker.onOutage('poison', i).charge)
      breaker.onSuccess(`other${i}`, i)
    }
    expect(charges).toEqual([false, false, true, true, true])
  })

  it('works through a half-open breaker too', () => {
    const breaker = createBreaker({ threshold: 1 }, longest)
    let nowMs = 0
    const charges: boolean[] = []
    for (let i = 0; i < 3; i++) {
      charges.push(breaker.onOutage('poison', nowMs).charge)
      nowMs += breaker.waitMs(nowMs)
      breaker.admit(`other${i}`, nowMs)
      breaker.onSuccess(`other${i}`, nowMs)
    }
    expect(charges).toEqual([false, false, true])
  })

  it('is near a charge from its last free strike on, until it is answered', () => {
    const breaker = closed()
    const near: boolean[] = []
    for (let i = 0; i < 3; i++) {
      breaker.onOutage('poison', i)
      near.push(breaker.isNearCharge('poison'))
      breaker.onSuccess(`other ${i}`, i)
    }
    expect(near).toEqual([false, true, true])
    expect(breaker.isNearCharge('other 1')).toBe(false)
    breaker.onRefusal('poison', 4)
    expect(breaker.isNearCharge('poison')).toBe(false)
  })

  it('does not count outages in a row, however many, as more than one strike', () => {
    const breaker = closed()
    for (let i = 0; i < 50; i++) expect(breaker.onOutage('a', i).charge).toBe(false)
  })

  it('does not take a delivery’s own answer for another’s', () => {
    const breaker = closed()
    for (let i = 0; i < 10; i++) {
      expect(breaker.onOutage('a', i).charge).toBe(false)
      breaker.onRefusal('a', i)
    }
  })

  it('starts anew for a delivery that was forgotten', () => {
    const breaker = closed()
    for (let i = 0; i < 10; i++) {
      expect(breaker.onOutage('a', i).charge).toBe(false)
      breaker.onSuccess('b', i)
      if (i % 2 === 1) breaker.forget('a')
    }
  })

  it('remembers at most a thousand suspects and forgets the oldest first', () => {
    const breaker = closed()
    breaker.onOutage('old', 0)
    for (let i = 0; i < 5000; i++) breaker.onOutage(`d${i}`, 0)
    expect(breaker.snapshot(0).suspects).toBe(1000)
    breaker.onSuccess('x', 0)
    breaker.onOutage('d4999', 0)
    breaker.onSuccess('x', 0)
    expect(breaker.onOutage('d4999', 0).charge).toBe(true)
  })
})

describe('whatever happens', () => {
  const anyOptions = fc.record({
    threshold: fc.integer({ min: 1, max: 4 }),
    closeAfter: fc.integer({ min: 1, max: 3 }),
    chargeAfter: fc.integer({ min: 2, max: 4 }),
  })
  const anyStep = fc.record({
    id: fc.constantFrom('a', 'b', 'c', 'd'),
    act: fc.constantFrom('admit', 'success', 'refusal', 'outage', 'forget'),
    passMs: fc.constantFrom(0, 1, 500, 1000, 5000, 40_000),
  })
  const anyRandom = fc.double({ min: 0, max: 1, noNaN: true })

  it('never has more than one delivery under way while half-open', () => {
    fc.assert(
      fc.property(anyOptions, anyRandom, fc.array(anyStep, { maxLength: 80 }), (options, u, steps) => {
        const breaker = createBreaker(options, () => u)
        let nowMs = 0
        let probes: string[] = []
        for (const { id, act, passMs } of steps) {
          nowMs += passMs
          const before = breaker.state(nowMs)
          if (act === 'admit' && breaker.admit(id, nowMs) && before === 'halfOpen') probes.push(id)
          if (act === 'success') breaker.onSuccess(id, nowMs)
          if (act === 'refusal') breaker.onRefusal(id, nowMs)
          if (act === 'outage') breaker.onOutage(id, nowMs)
          if (act === 'forget') breaker.forget(id)
          if (act !== 'admit') probes = probes.filter((probe) => probe !== id)
          if (breaker.state(nowMs) !== 'halfOpen') probes = []
          expect(probes.length).toBeLessThanOrEqual(1)
        }
      }),
    )
  })

  it('charges nobody when every delivery fails', () => {
    fc.assert(
      fc.property(anyOptions, anyRandom, fc.array(anyStep, { maxLength: 80 }), (options, u, steps) => {
        const breaker = createBreaker(options, () => u)
        let nowMs = 0
        for (const { id, act, passMs } of steps) {
          nowMs += passMs
          if (act === 'forget') breaker.forget(id)
          else if (breaker.admit(id, nowMs)) expect(breaker.onOutage(id, nowMs).charge).toBe(false)
        }
      }),
    )
  })

  it('comes back: an open breaker lets somebody try within its longest time', () => {
    fc.assert(
      fc.property(anyOptions, anyRandom, fc.nat(30), (options, u, failures) => {
        const breaker = createBreaker(options, () => u)
        let nowMs = 0
        for (let i = 0; i <= failures; i++) {
          expect(breaker.waitMs(nowMs)).toBeLessThanOrEqual(BREAKER_DEFAULTS.maxOpenMs)
          nowMs += breaker.waitMs(nowMs)
          expect(breaker.admit(`d${i}`, nowMs)).toBe(true)
          breaker.onOutage(`d${i}`, nowMs)
        }
      }),
    )
  })
})
