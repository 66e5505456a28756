/** Acts on many deliveries: with a bar, a throttle, and a place to stop between two steps. */
import type { LoadedOutbox } from '../config/load-config.ts'
import { ERROR_CODES, OutboxError } from '../core/errors.ts'
import type { DeliveryView, OperationKind } from '../core/spi/index.ts'
import type { Flag, Result } from './command.ts'
import { Interrupted } from './failures.ts'
import { ACT_FLAGS, type Filter, findEvent } from './filters.ts'
import type { Session } from './session.ts'
import { deliveriesText } from './text.ts'

const DONE: Readonly<Record<OperationKind, string>> = {
  redrive: 'redriven',
  replay: 'replayed',
  discard: 'discarded',
}

export const BULK_FLAGS: readonly Flag[] = [
  { name: 'dry-run', about: 'say how many it would be, and touch nothing' },
  { name: 'per-second', value: 'N', about: 'at most N a second, to spare what hears them' },
  ...ACT_FLAGS,
]

export interface Choice {
  readonly loaded: LoadedOutbox
  /** Ids, or what the core chooses by itself, the oldest first. */
  readonly target: Filter & { readonly deliveryIds?: readonly string[]; readonly limit: number }
}

export const byIds = (loaded: LoadedOutbox, ids: readonly string[]): Choice => {
  const deliveryIds = [...new Set(ids)]
  return { loaded, target: { deliveryIds, limit: deliveryIds.length } }
}

/** As the core is told it. */
export const paceOf = (session: Session): { readonly ratePerSecond?: number } =>
  session.text('per-second') === undefined
    ? {}
    : { ratePerSecond: session.whole('per-second', 1, [1, 100_000]) }

/** Nothing matched: said as what it is, with an exit code of its own. */
export const requireSome = (found: readonly unknown[], what: string): void => {
  if (found.length === 0) throw new OutboxError(ERROR_CODES.notFound, `there is no ${what}`)
}

/** What the operands name; an event stands for all of its deliveries. */
const namedDeliveries = async (
  session: Session,
): Promise<{
  readonly loaded: LoadedOutbox
  readonly named: readonly { readonly id: string; readonly deliveries: readonly DeliveryView[] }[]
}> => {
  const found = []
  for (const id of session.operands) found.push([id, await findEvent(session, id)] as const)
  const owners = found.map(([, [loaded]]) => loaded)
  const [first, ...others] = owners
  if (first === undefined) return session.refuse('name at least one id')
  if (others.some(({ name }) => name !== first.name))
    session.refuse('these are in different outboxes; one at a time')
  const named = found.map(([id, [, detail, delivery]]) => ({
    id,
    deliveries: delivery === null ? detail.deliveries : [delivery],
  }))
  return { loaded: first, named }
}

/** What is there in another state is no unknown id, and gets the exit code of what does not fit. */
export const requireState = (
  id: string,
  deliveries: readonly DeliveryView[],
  wanted: 'dead' | 'done',
  only?: string,
): readonly [string, ...string[]] => {
  const meant = deliveries.filter(({ destination }) => (only ?? destination) === destination)
  const [first, ...more] = meant.filter(({ status }) => status === wanted).map((delivery) => delivery.id)
  if (first !== undefined) return [first, ...more]
  const stateText = ({ status }: DeliveryView): string =>
    status === 'discarded' ? 'discarded (by hand, or because a later run took its place)' : status
  const states = [...new Set(meant.map(stateText))].join(', ')
  const at = only === undefined ? '' : ` for ${only}`
  const state = states === '' ? `has no deliveries${at}` : `is not ${wanted} but ${states}${at}`
  throw new OutboxError(
    ERROR_CODES.conflict,
    `${id} ${state}, and nothing was touched; posthaste why ${id} says more`,
  )
}

export const chooseByIds = async (
  session: Session,
  wanted: 'dead' | 'done',
  only?: string,
): Promise<Choice> => {
  const { loaded, named } = await namedDeliveries(session)
  const ids = named.flatMap(({ id, deliveries }) => requireState(id, deliveries, wanted, only))
  return byIds(loaded, ids)
}

/** The core acts in steps, each a transaction. Ctrl-C ends it between two of them and says how far it came. */
export const runBulk = async (
  session: Session,
  kind: OperationKind,
  choose: () => Promise<Choice>,
): Promise<Result> => {
  const pace = paceOf(session)
  const { loaded, target } = await choose()
  const { operator } = loaded.outbox
  const word = DONE[kind]
  const matched = await operator[kind](target, { dryRun: true })
  if (session.isOn('dry-run')) {
    session.say(`would ${kind} ${deliveriesText(matched)}`)
    return { json: { dryRun: true, matched, [word]: 0 } }
  }
  const { signal } = session
  const progress = session.progress(word)
  let changed: number
  try {
    changed = await operator[kind](target, {
      ...session.act(),
      ...pace,
      signal,
      onProgress: ({ done, total }) => progress.update(done, total),
    })
  } finally {
    progress.end()
  }
  if (signal.aborted && changed < matched)
    throw new Interrupted(
      `stopped: ${deliveriesText(changed)} ${word}, ${deliveriesText(matched - changed)} not touched; run it again to go on`,
      { dryRun: false, matched, [word]: changed },
    )
  session.say(session.paint('green', `${deliveriesText(changed)} ${word}`))
  return { json: { dryRun: false, matched, [word]: changed } }
}
