import { BadRequestException, Body, Controller, Inject, Post } from '@nestjs/common'
import type { Order } from './events'
import { OrdersService } from './orders.service'

/** A body is what anybody sends, whatever its type says. */
const itemOf = (body: unknown): string => {
  const { item } = (body ?? {}) as { item?: unknown }
  if (typeof item === 'string' && item !== '') return item
  throw new BadRequestException('item must be a text that is not empty, such as {"item":"lamp"}')
}

@Controller('orders')
export class OrdersController {
  constructor(@Inject(OrdersService) private readonly orders: OrdersService) {}

  @Post()
  async place(@Body() body: unknown): Promise<Order> {
    return await this.orders.place(itemOf(body))
  }
}
