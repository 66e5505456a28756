/** Holds the ledger against the truth: what was lost, made up, doubled or turned around. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type FaultLine, Faults } from './faults.ts'
import { type Confirmation, KeyOrder } from './key-order.ts'
import {
  AFTERMATH_MS,
  ANSWERS,
  type AnswerLine,
  LEDGER,
  type LedgerLine,
  OBSERVED,
  type ObservedLine,
  SETTLED,
  type SettledLine,
} from './messages.ts'
import { type Recovery, recoveryOf } from './recovery.ts'

/** A row of the table that was written in the event's own transaction. */
export interface Truth {
  readonly id: string
  readonly key: string | null
  readonly position: number
  readonly publishedAt: number
  readonly refusals: number
}

export interface Verdict {
  readonly ok: boolean
  readonly committed: number
  readonly delivered: number
  readonly lost: number
  readonly ghosts: number
  readonly duplicates: number
  /** Sends that nobody knew to be settled, near a fault of their sender: so many duplicates can be explained. */
  readonly duplicateBound: number
  /** Duplicates of an event that were not in flight at a fault. */
  readonly unexplained: number
  readonly orderViolations: number
  /** Transactions whose outcome nobody was told. */
  readonly unknown: number
  readonly drained: boolean
  readonly faults: Readonly<Record<string, number>>
  readonly refused: Readonly<Record<string, string>>
  readonly observed: Readonly<Record<string, number>>
  readonly recoveryMs: Recovery
  readonly stories: readonly string[]
}

export interface Evidence {
  readonly truth: readonly Truth[]
  readonly ledger: readonly LedgerLine[]
  readonly answers: readonly AnswerLine[]
  readonly observed: readonly ObservedLine[]
  readonly settled: readonly SettledLine[]
  readonly faults: readonly FaultLine[]
  readonly drained: boolean
}

const STORIES = 10
const UNCONFIRMED: Confirmation = { commitAt: Infinity, answeredAt: Infinity }

/** Half a line is what a killed writer leaves; it told nobody about it. */
const readLines = <T>(folder: string, name: string): readonly T[] => {
  let text = ''
  try {
    text = readFileSync(join(folder, name), 'utf8')
  } catch {}
  return text.split('\n').flatMap((line) => {
    try {
      return line === '' ? [] : [JSON.parse(line) as T]
    } catch {
      return []
    }
  })
}

export const readEvidence = (
  folder: string,
): Pick<Evidence, 'ledger' | 'answers' | 'observed' | 'settled'> => ({
  ledger: readLines<LedgerLine>(folder, LEDGER),
  answers: readLines<AnswerLine>(folder, ANSWERS),
  observed: readLines<ObservedLine>(folder, OBSERVED),
  settled: readLines<SettledLine>(folder, SETTLED),
})

export const judge = (evidence: Evidence): Verdict => {
  const stories: string[] = []
  const counts = {
    delivered: 0,
    lost: 0,
    ghosts: 0,
    duplicates: 0,
    duplicateBound: 0,
    unexplained: 0,
    orderViolations: 0,
  }
  const broken = (what: keyof typeof counts, story: string): void => {
    counts[what] += 1
    if (stories.length < STORIES) stories.push(story)
  }
  const faults = new Faults(AFTERMATH_MS)
  for (const line of evidence.faults) faults.add(line)
  for (const [index, { at, cut }] of evidence.answers.entries()) {
    if (cut !== true) continue
    // A producer sends nothing, so nothing may come twice because of it.
    const fault = { id: -2 - index, at, kind: 'cut-connections', hits: [] }
    faults.add({ ...fault, what: 'begin' })
    faults.add({ ...fault, what: 'end' })
  }
  for (const line of evidence.observed) faults.observe(line.slot, line)

  const truth = new Map(evidence.truth.map((row) => [row.id, row]))
  const confirmed = new Map<string, Confirmation>()
  for (const { ids, what, at, commitAt } of evidence.answers) {
    for (const id of ids) {
      if (what === 'ok' && !truth.has(id))
        broken('lost', `event ${id} was confirmed, and is not in the database`)
      if (what === 'failed' && truth.has(id))
        broken('ghosts', `event ${id} was refused, and is in the database`)
      confirmed.set(id, { commitAt, answeredAt: what === 'ok' ? at : Infinity })
    }
  }

  const order = new KeyOrder()
  const sends = new Map<string, LedgerLine[]>()
  for (const line of evidence.ledger) {
    const row = truth.get(line.id)
    if (row === undefined) {
      broken('ghosts', `event ${line.id} arrived, and was never committed`)
      continue
    }
    const before = sends.get(line.id) ?? []
    if (row.key !== null) {
      const ordered = { ...row, body: { publishedAt: row.publishedAt, delayMs: 0 } }
      const problem = order.next(
        ordered,
        'proof',
        confirmed.get(line.id) ?? UNCONFIRMED,
        line.at,
        before.length === 0,
      )
      if (problem !== null) broken('orderViolations', problem)
    }
    sends.set(line.id, [...before, line])
  }

  const settled = new Map<string, Map<string, number>>()
  for (const { boot, ids } of evidence.settled) {
    for (const id of ids) {
      const boots = settled.get(id) ?? new Map<string, number>()
      settled.set(id, boots.set(boot, (boots.get(boot) ?? 0) + 1))
    }
  }
  for (const { id } of evidence.truth) {
    const accepted = sends.get(id) ?? []
    if (accepted.length === 0) {
      broken('lost', `event ${id} never arrived`)
      continue
    }
    counts.delivered += 1
    counts.duplicates += accepted.length - 1
    // A send that its sender knows to be settled cannot be the cause of another one; its last send is that one.
    const credit = new Map(settled.get(id))
    const inFlight = accepted.toReversed().filter(({ slot, boot, at }) => {
      const left = credit.get(boot) ?? 0
      credit.set(boot, left - 1)
      return left <= 0 && faults.excuse(slot, at)
    }).length
    counts.duplicateBound += inFlight
    if (accepted.length - inFlight > 1)
      broken(
        'unexplained',
        `event ${id} arrived ${accepted.length} times, ${inFlight} of them in flight at a fault`,
      )
  }

  const waiting = new Set(
    evidence.truth.flatMap(({ key, refusals }) => (refusals > 0 && key !== null ? [key] : [])),
  )
  const waits = evidence.truth.flatMap(({ id, key, refusals }): (readonly [number, number])[] => {
    const from = confirmed.get(id)?.answeredAt ?? Infinity
    const first = sends.get(id)?.[0]
    const isDelayed = refusals > 0 || (key !== null && waiting.has(key))
    return first === undefined || isDelayed || from === Infinity ? [] : [[from, first.at]]
  })
  const committed = evidence.truth.length
  return {
    // A run in which nothing was committed, or nothing went wrong, proves nothing.
    ok:
      evidence.drained &&
      committed > 0 &&
      Object.keys(faults.counts).length > 0 &&
      counts.lost + counts.ghosts + counts.orderViolations + counts.unexplained === 0 &&
      counts.duplicates <= counts.duplicateBound,
    committed,
    ...counts,
    unknown: evidence.answers.filter(({ what }) => what === 'unknown').length,
    drained: evidence.drained,
    faults: faults.counts,
    refused: faults.refused,
    observed: faults.observed,
    recoveryMs: recoveryOf(faults.ends, waits),
    stories,
  }
}
