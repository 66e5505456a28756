/**
 * What customers do. Each visit is one or two transactions: the shop's own rows and the events about them are
 * stored together or not at all. Everything depends on the seed and the number of the visit alone, so a shop that
 * was killed goes on where its database says it was.
 */
import type { SqliteHandle } from '../src/stores/sqlite/index.ts'
import { orderPlaced, pageViewed, paymentCaptured, stockReserved } from './catalogue.ts'
import { type Chance, chanceOf, pick } from './chance.ts'
import { type Shop, UNREADABLE } from './shop.ts'

export const SHOP_TABLES = `
CREATE TABLE IF NOT EXISTS visits (number INTEGER PRIMARY KEY, customer TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS orders (
  id TEXT PRIMARY KEY, customer TEXT NOT NULL, total REAL NOT NULL, address TEXT NOT NULL, paid INTEGER NOT NULL DEFAULT 0
);`

const CUSTOMERS = ['ada', 'grace', 'alan', 'edsger', 'barbara', 'donald', 'frances', 'ken'] as const
const PAGES = ['/', '/tea', '/teapots', '/cups', '/basket'] as const
const STREETS = ['Canal Street 5', 'Mill Lane 12', 'Harbour Road 3', 'Abbey Hill 27'] as const

const CHECKOUT_EVENTS = 3
const CHECKOUT_SHARE = 0.5
const DECLINED_SHARE = 0.08

class CardDeclined extends Error {}

export interface VisitPlan {
  readonly seed: number
  readonly number: number
  /** Most events that this visit may publish. */
  readonly budget: number
  /** This customer's address is the one that the warehouse cannot read. */
  readonly poison: boolean
}

export interface Visited {
  readonly published: number
  readonly rolledBack: number
  /** Set when an order was placed. */
  readonly order: number | null
}

const headers = { pid: String(process.pid) }

export const visit = async (shop: Shop, plan: VisitPlan): Promise<Visited> => {
  const chance = chanceOf(plan.seed, plan.number)
  const customer = pick(chance, CUSTOMERS)
  const buys = chance() < CHECKOUT_SHARE || plan.poison
  if (buys && plan.budget >= CHECKOUT_EVENTS) return checkout(shop, plan, customer, chance)
  return browse(shop, plan.number, customer, Math.min(plan.budget, 1 + Math.floor(chance() * 3)), chance)
}

/** Nobody's order, just pages: no key. Also used for a burst, when a lot of people come at once. */
export const browse = async (
  shop: Shop,
  number: number,
  customer: string,
  pages: number,
  chance: Chance,
): Promise<Visited> => {
  await shop.outbox.transaction(async (tx) => {
    insertVisit(tx, number, customer)
    const views = Array.from({ length: pages }, () =>
      pageViewed({ page: pick(chance, PAGES), customer }, { headers }),
    )
    shop.published(tx, await shop.outbox.publishMany(tx, views))
  })
  return { published: pages, rolledBack: 0, order: null }
}

const checkout = async (shop: Shop, plan: VisitPlan, customer: string, chance: Chance): Promise<Visited> => {
  const { outbox } = shop
  const { number } = plan
  const orderId = `order-${number}`
  const total = Math.round(chance() * 9_000 + 500) / 100
  const street = pick(chance, STREETS)
  const address = plan.poison ? `${UNREADABLE}${UNREADABLE} ${street}` : street
  await outbox.transaction(async (tx) => {
    insertVisit(tx, number, customer)
    tx.prepare('INSERT INTO orders (id, customer, total, address) VALUES (?, ?, ?, ?)').run(
      orderId,
      customer,
      total,
      address,
    )
    const placed = orderPlaced({ orderId, number, customer, total, address }, { headers })
    shop.published(tx, [await outbox.publish(tx, placed)])
  })
  const declined = chance() < DECLINED_SHARE && !plan.poison
  try {
    await outbox.transaction(async (tx) => {
      tx.prepare('UPDATE orders SET paid = 1 WHERE id = ?').run(orderId)
      const step = { orderId, number, amount: total }
      const drafts = [paymentCaptured(step, { headers }), stockReserved(step, { headers })]
      shop.published(tx, await outbox.publishMany(tx, drafts))
      // The events are written already. They vanish with the payment, and nobody ever hears of them.
      if (declined) throw new CardDeclined(orderId)
    })
  } catch (error) {
    if (!(error instanceof CardDeclined)) throw error
    return { published: 1, rolledBack: 2, order: number }
  }
  return { published: 3, rolledBack: 0, order: number }
}

const insertVisit = (tx: SqliteHandle, number: number, customer: string): void => {
  tx.prepare('INSERT INTO visits (number, customer) VALUES (?, ?)').run(number, customer)
}
