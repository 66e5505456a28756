import { Module } from '@nestjs/common'
import { Pool } from 'pg'
import { OutboxModule } from 'posthaste/nestjs'
import { postgresStore } from 'posthaste/postgres'
import { DatabaseModule } from './database.module'
import { MailsService } from './mails.service'
import { OrdersController } from './orders.controller'
import { OrdersService } from './orders.service'

@Module({
  imports: [
    DatabaseModule,
    OutboxModule.forRootAsync({
      imports: [DatabaseModule],
      inject: [Pool],
      // The schema is its own, so that other examples on this database do not deliver its events.
      useFactory: (pool: Pool) => ({ store: postgresStore({ pool, schema: 'nest_outbox' }), migrate: true }),
    }),
  ],
  controllers: [OrdersController],
  providers: [OrdersService, MailsService],
})
export class AppModule {}
