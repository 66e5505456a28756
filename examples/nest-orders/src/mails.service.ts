import { Injectable } from '@nestjs/common'
import type { OutboxEvent } from 'posthaste'
import { OnOutboxEvent } from 'posthaste/nestjs'
import { type Order, orderPlaced } from './events'

@Injectable()
export class MailsService {
  /** At least once: a throw is tried again, and after a crash it may come twice, with the same event id. */
  @OnOutboxEvent(orderPlaced)
  async confirm(event: OutboxEvent<Order>): Promise<void> {
    console.log(`Mail: your ${event.payload.item} is on its way`)
  }
}
