/** The story of a run without a crash: calm, a poisoned order, a burst, an outage, a repair. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Board } from './board.ts'
import { WAREHOUSE_ATTEMPTS } from './catalogue.ts'
import type { Scene } from './producer.ts'
import { HOT_QUEUE, type Shop } from './shop.ts'

const POISONED = 3
const DEATH_TIMEOUT_MS = 5_000

export interface Story {
  readonly scenes: readonly Scene[]
  breakerChanged(destination: string, state: 'closed' | 'open' | 'halfOpen'): void
  /** The line about what happens now, kept true while it lasts. */
  refresh(): void
}

export const createStory = (board: Board, parts: () => { shop: Shop }): Story => {
  let breaker: 'closed' | 'open' | 'halfOpen' = 'closed'
  let catchingUp = false
  const mailer = () => board.destinations.get('mailer')
  const outage = outageScenes(board, parts, () => {
    breaker = 'closed'
  })
  return {
    scenes: [
      calm(board),
      ...Array.from({ length: POISONED }, (_, i) => poison(board, 0.2 + 0.03 * i, i)),
      burst(board),
      ...outage.scenes,
      repair(board, parts),
    ],
    breakerChanged(destination, state) {
      if (destination !== 'mailer' || state === breaker) return
      const before = breaker
      breaker = state
      if (state === 'closed' && before !== 'closed') catchingUp = outage.closed()
    },
    refresh() {
      const waiting = mailer()?.waiting ?? 0
      if (parts().shop.switches.mailerDown && breaker !== 'closed') {
        board.now = `the mailer is down: its breaker is open, ${waiting} deliveries wait, no attempt is spent`
      }
      if (!catchingUp || waiting > 8) return
      catchingUp = false
      board.tell('the mailer has caught up: nothing was lost, and no attempt was spent')
    },
  }
}

const calm = (board: Board): Scene => ({
  at: 0,
  async play() {
    board.tell('orders and their events are stored in one transaction and sent after its commit')
    return undefined
  },
})

const poison = (board: Board, at: number, index: number): Scene => ({
  at,
  async play() {
    if (index === 0) {
      board.tell(
        `${POISONED} orders have an address that the warehouse's code cannot read: ${WAREHOUSE_ATTEMPTS} attempts, then dead`,
      )
    }
    return { poison: true }
  },
})

const burst = (board: Board): Scene => ({
  at: 0.35,
  async play() {
    const pages = HOT_QUEUE + Math.max(8, Math.round(board.total * 0.015))
    board.tell(
      `a burst of ${pages} page views: ${HOT_QUEUE} fit the hot queue, the rest comes from the database`,
    )
    return { burst: pages }
  },
})

const outageScenes = (
  board: Board,
  parts: () => { shop: Shop },
  forget: () => void,
): { readonly scenes: readonly Scene[]; readonly closed: () => boolean } => {
  const window = {
    destination: 'mailer',
    fault: 'outage' as const,
    fromMs: Number.POSITIVE_INFINITY,
    toMs: Number.POSITIVE_INFINITY,
  }
  const down: Scene = {
    at: 0.45,
    async play() {
      const { switches } = parts().shop
      forget()
      window.fromMs = Date.now()
      switches.windows.push(window)
      switches.mailerDown = true
      board.tell('the mail server goes down; customers notice nothing')
      return undefined
    },
  }
  const up: Scene = {
    at: 0.63,
    async play() {
      parts().shop.switches.mailerDown = false
      board.tell('the mail server is back: the breaker sends one mail to see, then all the others')
      return undefined
    },
  }
  return {
    scenes: [down, up],
    /** Whether the outage is over; a breaker may also close between two probes of a server that is down. */
    closed() {
      if (parts().shop.switches.mailerDown || window.fromMs === Number.POSITIVE_INFINITY) return false
      window.toMs = Date.now()
      board.tell(
        `the breaker is closed again: ${board.destinations.get('mailer')?.waiting ?? 0} mails go out`,
      )
      return true
    },
  }
}

const repair = (board: Board, parts: () => { shop: Shop }): Scene => ({
  at: 0.8,
  async play() {
    const { shop } = parts()
    const until = performance.now() + DEATH_TIMEOUT_MS
    // An attempt that is still to come would succeed after the repair, and there would be nothing to redrive.
    while ((board.destinations.get('warehouse')?.dead ?? 0) < POISONED && performance.now() < until)
      await sleep(25)
    const dead = board.destinations.get('warehouse')?.dead ?? 0
    shop.switches.warehouseFixed = true
    const redriven = await shop.outbox.operator.redrive(
      { destination: 'warehouse' },
      { actor: 'demo', reason: 'the warehouse can read such addresses now' },
    )
    board.tell(
      `the warehouse's code is fixed: ${redriven} of ${dead} dead deliveries are redriven as new runs`,
    )
    return undefined
  },
})
