/** What the ledger of a crew proves. */
import { readFileSync } from 'node:fs'

export interface Verdict {
  /** Numbers that never arrived. */
  readonly lost: readonly number[]
  /** First arrivals of a key that were out of order, as `late after early`. */
  readonly disorder: readonly string[]
  readonly duplicates: number
  /** Arrived at a process and not known to be settled when it was killed or fenced. */
  readonly inFlight: number
}

interface Line {
  readonly pid: number
  readonly what: 'got' | 'settled' | 'fenced'
  readonly n: number
}

const parse = (file: string): Line[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [pid, what, n] = line.split(' ')
      return { pid: Number(pid), what: what as Line['what'], n: Number(n) }
    })

export const arrived = (file: string): number => {
  const lines = parse(file).filter(({ what }) => what === 'got')
  return new Set(lines.map(({ n }) => n)).size
}

/** How often anything arrived at this process. */
export const arrivedAt = (file: string, process: number): number =>
  parse(file).filter(({ pid, what }) => pid === process && what === 'got').length

const unsettledBy = (lines: readonly Line[], pid: number): number => {
  const open = new Set<number>()
  for (const line of lines) {
    if (line.pid !== pid) continue
    if (line.what === 'got') open.add(line.n)
    if (line.what === 'settled') open.delete(line.n)
  }
  return open.size
}

/** Event `n` of `count` has the key `n % keys`; `killed` are processes that ended by SIGKILL. */
export const judge = (file: string, count: number, keys: number, killed: readonly number[]): Verdict => {
  const lines = parse(file)
  const got = lines.filter(({ what }) => what === 'got').map(({ n }) => n)
  const first = [...new Set(got)]
  const latest = new Map<number, number>()
  const disorder: string[] = []
  for (const n of first) {
    const before = latest.get(n % keys) ?? -1
    if (n < before) disorder.push(`${n} after ${before}`)
    latest.set(n % keys, Math.max(n, before))
  }
  const seen = new Set(first)
  const fences = lines.flatMap(({ what, pid }, at) => (what === 'fenced' ? [{ pid, at }] : []))
  const atFences = fences.map(({ pid, at }) => unsettledBy(lines.slice(0, at), pid))
  const atKills = killed.map((pid) => unsettledBy(lines, pid))
  return {
    lost: Array.from({ length: count }, (_, n) => n).filter((n) => !seen.has(n)),
    disorder,
    duplicates: got.length - first.length,
    inFlight: [...atFences, ...atKills].reduce((sum, each) => sum + each, 0),
  }
}
