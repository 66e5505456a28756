import { Body, Controller, Inject, Post } from '@nestjs/common'
import type { Order } from './events'
import { OrdersService } from './orders.service'

@Controller('orders')
export class OrdersController {
  constructor(@Inject(OrdersService) private readonly orders: OrdersService) {}

  @Post()
  async place(@Body() body: { item: string }): Promise<Order> {
    return await this.orders.place(body.item)
  }
}
