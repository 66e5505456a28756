/** What the shop says happened, and who must hear of it. */
import { type DestinationOptions, defineEvent, fixed } from '../src/index.ts'

export interface OrderPlaced {
  readonly orderId: string
  readonly number: number
  readonly customer: string
  readonly total: number
  readonly address: string
}

interface OrderStep {
  readonly orderId: string
  readonly number: number
  readonly amount: number
}

/** All events of an order share its key, so each destination hears them in the order in which they happened. */
export const orderPlaced = defineEvent<'order.placed', OrderPlaced>('order.placed', {
  aggregate: 'order',
  key: ({ orderId }) => orderId,
})
export const paymentCaptured = defineEvent<'payment.captured', OrderStep>('payment.captured', {
  aggregate: 'order',
  key: ({ orderId }) => orderId,
})
export const stockReserved = defineEvent<'stock.reserved', OrderStep>('stock.reserved', {
  aggregate: 'order',
  key: ({ orderId }) => orderId,
})
/** Nobody cares in which order pages are counted: no key, the fastest way. */
export const pageViewed = defineEvent<'page.viewed', { readonly page: string; readonly customer: string }>(
  'page.viewed',
)

export const DESTINATION_NAMES = ['mailer', 'warehouse', 'partner', 'analytics'] as const
export type DestinationName = (typeof DESTINATION_NAMES)[number]

export const WAREHOUSE_ATTEMPTS = 4

export const DESTINATIONS: Readonly<Record<DestinationName, DestinationOptions>> = {
  mailer: {
    events: [orderPlaced, paymentCaptured],
    breaker: { threshold: 3, openMs: 250, maxOpenMs: 400 },
  },
  warehouse: {
    events: [orderPlaced, stockReserved],
    retry: fixed({ delayMs: 120, maxAttempts: WAREHOUSE_ATTEMPTS }),
  },
  partner: { events: [paymentCaptured], retry: fixed({ delayMs: 150, maxAttempts: 8 }) },
  analytics: { events: [pageViewed], concurrency: 32 },
}
