import { defineEvent, typeOnly } from 'posthaste'

export interface Order {
  id: string
  item: string
}

export const orderPlaced = defineEvent('order.placed', {
  schema: typeOnly<Order>(),
  key: (order) => order.id,
})
