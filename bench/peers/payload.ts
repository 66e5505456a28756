/** The event that every subject carries: about 900 bytes of JSON, as an order with its lines is. */
export interface Payload {
  /** Counts from 0, so that a handler can say which one it has. */
  readonly n: number
  readonly orderId: string
  readonly customer: { readonly id: string; readonly name: string; readonly email: string }
  readonly total: number
  readonly currency: string
  readonly lines: readonly { readonly sku: string; readonly title: string; readonly quantity: number }[]
}

export const EVENT_TYPE = 'order.placed'

/** Few enough to come again, and enough for a key to be free when it does. */
const KEYS = 500

export const keyOf = (n: number): string => `order-${n % KEYS}`

export const payloadOf = (n: number): Payload => ({
  n,
  orderId: keyOf(n),
  customer: {
    id: `customer-${String(n % 5_000).padStart(6, '0')}`,
    name: `Customer number ${n % 5_000} of the long list`,
    email: `customer.${n % 5_000}@example.com`,
  },
  total: 1_000 + (n % 900),
  currency: 'EUR',
  lines: Array.from({ length: 10 }, (_, line) => ({
    sku: `sku-${String((n * 31 + line) % 9_973).padStart(8, '0')}`,
    title: `Article ${(n + line) % 997} in its usual box`,
    quantity: 1 + (line % 3),
  })),
})
