/** Judged at every statement: a worker that was fenced changes nothing, and what an operator does is written down. */
import type { InsertRequest } from '../src/core/spi/index.ts'
import type { MemoryDatabase, MemoryTransaction } from '../src/stores/memory/index.ts'
import { TransactionLog } from '../src/stores/memory/transactions.ts'
import type { Call } from './intercept.ts'
import { numberOf } from './truth.ts'
import type { World } from './world.ts'

const WORKER_FIRST: ReadonlySet<string> = new Set([
  'lanes.renew',
  'lanes.take',
  'lanes.giveUp',
  'lanes.retire',
  'queue.claim',
  'queue.hold',
])
const WORKER_INSIDE: ReadonlySet<string> = new Set(['queue.suspect', 'queue.activate', 'queue.expand'])

/** Whose right a statement goes by; null when it names none. */
const workerOf = (name: string, [first]: readonly unknown[]): string | null => {
  if (WORKER_FIRST.has(name)) return first as string
  return WORKER_INSIDE.has(name) ? (first as { readonly workerId: string }).workerId : null
}

/** A preview only looks. */
const isOperators = (name: string): boolean =>
  (name.startsWith('operations.') && name !== 'operations.preview') || name === 'registry.configure'

export const judgeStatement = async (
  world: World,
  who: string,
  name: string,
  args: readonly unknown[],
  next: Call,
): Promise<unknown> => {
  const { database } = world
  const worker = workerOf(name, args)
  const stale = worker !== null && !database.isLive(worker)
  const before = stale ? pictureOf(database) : ''
  const audited = database.audit.length
  const result = await next(args)
  if (stale) {
    world.count('staleStatement')
    const changed = pictureOf(database) !== before || database.isLive(worker)
    if (changed) world.violate('6 stale right', `${name} of ${who} changed something after it was fenced`)
  }
  if (isOperators(name) && database.audit.length === audited) {
    world.violate('7 finished is final', `${name} through ${who} left no audit row`)
  }
  return result
}

/** With locked keys only one open transaction has written events of a key. */
export const judgeTurns = (
  world: World,
  tx: MemoryTransaction,
  { events, lockKeys }: InsertRequest,
): void => {
  if (!lockKeys) return
  const keys = new Set(events.map(({ key }) => key).filter((key) => key !== null))
  for (const other of world.database.open) {
    if (other === tx.log || !(other instanceof TransactionLog)) continue
    for (const entry of other.entries) {
      if (entry.kind !== 'event' || !keys.has(entry.event.record.key ?? '')) continue
      const about = [...events.map(({ data }) => numberOf(data)), numberOf(entry.event.record.data)]
      world.violate('4 order', `two open transactions write the key "${entry.event.record.key}"`, about)
    }
  }
}

const pictureOf = ({ deliveries, lanes }: MemoryDatabase): string => {
  const parts: string[] = []
  for (const { id, status, token, attempts, suspicions, availableAtMs, seq } of deliveries.values()) {
    parts.push(`${id} ${status} ${token} ${attempts} ${suspicions} ${availableAtMs} ${seq}`)
  }
  for (const rows of lanes.values()) for (const { owner, epoch } of rows) parts.push(`${owner} ${epoch}`)
  return parts.join('\n')
}
