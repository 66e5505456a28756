import { randomUUID } from 'node:crypto'
import { Injectable } from '@nestjs/common'
import type { PoolClient } from 'pg'
import type { Outbox } from 'posthaste'
import { InjectOutbox } from 'posthaste/nestjs'
import { type Order, orderPlaced } from './events'

@Injectable()
export class OrdersService {
  constructor(@InjectOutbox() private readonly outbox: Outbox<PoolClient>) {}

  /** The order and the event are stored together, or neither is. */
  async place(item: string): Promise<Order> {
    const order = { id: randomUUID(), item }
    await this.outbox.transaction(async (tx) => {
      await tx.query('INSERT INTO orders (id, item) VALUES ($1, $2)', [order.id, order.item])
      await this.outbox.publish(tx, orderPlaced(order))
    })
    return order
  }
}
