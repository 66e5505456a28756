/** On PostgreSQL with TypeORM, in transactions of @nestjs-cls/transactional that nobody hands around. */
import {
  Body,
  Controller,
  Inject,
  Injectable,
  Module,
  type OnApplicationShutdown,
  Post,
} from '@nestjs/common'
import { ClsPluginTransactional, Transactional, TransactionHost } from '@nestjs-cls/transactional'
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm'
import { ClsModule } from 'nestjs-cls'
import { DataSource, type EntityManager } from 'typeorm'
import { afterEach, describe, expect, it } from 'vitest'
import { typeormTransactions } from '../../src/clients/typeorm.ts'
import type { Outbox, OutboxEvent } from '../../src/index.ts'
import { getOutboxToken, InjectOutbox, OnOutboxEvent, OutboxModule } from '../../src/nestjs/index.ts'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import { newSchema } from '../stores/postgres-harness.ts'
import { newPostgresUrl } from '../stores/servers.ts'
import { closeAll, Heard, listen, provided } from './application.ts'

const url = newPostgresUrl()
const schema = newSchema()

@Injectable()
class Database implements OnApplicationShutdown {
  constructor(@Inject(DataSource) readonly dataSource: DataSource) {}

  async onApplicationShutdown(): Promise<void> {
    await this.dataSource.query(`DROP SCHEMA ${schema} CASCADE`)
    await this.dataSource.destroy()
  }
}

@Module({
  providers: [
    {
      provide: DataSource,
      useFactory: async () => {
        const dataSource = await new DataSource({ type: 'postgres', url, entities: [] }).initialize()
        await dataSource.query(`CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.orders (id text)`)
        return dataSource
      },
    },
    Database,
  ],
  exports: [DataSource],
})
class DatabaseModule {}

type Host = TransactionHost<TransactionalAdapterTypeOrm>

@Injectable()
class Orders {
  constructor(
    @Inject(TransactionHost) private readonly host: Host,
    @InjectOutbox() readonly outbox: Outbox<EntityManager>,
  ) {}

  async #insert(id: string): Promise<void> {
    await this.host.tx.query(`INSERT INTO ${schema}.orders VALUES ($1)`, [id])
  }

  @Transactional()
  async place(id: string): Promise<string> {
    await this.#insert(id)
    return await this.#say(id)
  }

  /** Deep inside, without a handle. */
  async #say(id: string): Promise<string> {
    const [published] = await this.outbox.publishMany([{ type: 'order.placed', payload: { id } }])
    await this.outbox.publish({ type: 'order.counted', payload: { id } })
    return published as string
  }

  @Transactional()
  async placeAndFail(id: string): Promise<void> {
    await this.place(id)
    throw new Error('no')
  }

  async placeWithoutTransaction(id: string): Promise<string> {
    return await this.#say(id)
  }

  async placeWithTheFallback(id: string): Promise<string> {
    return await this.outbox.publish(this.host.tx, { type: 'order.placed', payload: { id } })
  }

  /** The promise is handed out in something that nobody awaits. */
  @Transactional()
  async leaveUndone(id: string, goOn: Promise<void>): Promise<{ late: Promise<string> }> {
    return await this.goOnLater(id, goOn)
  }

  @Transactional()
  async goOnLater(id: string, goOn: Promise<void>): Promise<{ late: Promise<string> }> {
    return { late: goOn.then(() => this.#say(id)) }
  }

  @Transactional()
  async placeInTwo(id: string): Promise<string> {
    return await this.outbox.transaction(() => this.#say(id))
  }
}

@Controller('orders')
class OrdersController {
  constructor(@Inject(Orders) private readonly orders: Orders) {}

  @Post()
  async place(@Body() { id }: { id: string }): Promise<{ event: string }> {
    return { event: await this.orders.place(id) }
  }
}

@Injectable()
class Audit extends Heard {
  constructor(@Inject(TransactionHost) private readonly host: Host) {
    super()
  }

  /** A listener has a transaction of its own. */
  @OnOutboxEvent('order.*')
  @Transactional()
  async hear(event: OutboxEvent<{ id: string }>): Promise<void> {
    const rows = await this.host.tx.query(`SELECT id FROM ${schema}.orders WHERE id = $1`, [event.payload.id])
    if (rows.length === 1) this.add(event)
  }
}

const open = () =>
  listen({
    imports: [
      ClsModule.forRoot({
        plugins: [
          new ClsPluginTransactional({
            imports: [DatabaseModule],
            adapter: new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource }),
          }),
        ],
      }),
      OutboxModule.forRootAsync({
        imports: [DatabaseModule],
        inject: [DataSource],
        transactionHost: TransactionHost,
        useFactory: (dataSource: DataSource) => ({
          store: postgresStore({ connectionString: url, schema, poolSize: 4 }),
          transactions: typeormTransactions(dataSource),
          migrate: true,
        }),
      }),
    ],
    controllers: [OrdersController],
    providers: [Orders, Audit],
  })

afterEach(closeAll)

describe('the transaction of @nestjs-cls/transactional', () => {
  it('is joined by publish without a handle, and its events are delivered after it committed', async () => {
    const { app, post } = await open()
    const { status, body } = await post('/orders', { id: 'o-1' })
    expect(status).toBe(201)
    const events = await provided<Audit>(app, Audit).count(2)
    expect(events.map(({ type }) => type).sort()).toEqual(['order.counted', 'order.placed'])
    expect(events.map(({ id }) => id)).toContain((body as { event: string }).event)
  })

  it('takes its events along when it is rolled back', async () => {
    const { app } = await open()
    const orders = provided<Orders>(app, Orders)
    await expect(orders.placeAndFail('o-1')).rejects.toThrow('no')
    expect((await orders.outbox.inspect.list()).deliveries).toEqual([])
    expect(await provided<DataSource>(app, DataSource).query(`SELECT * FROM ${schema}.orders`)).toEqual([])
  })

  it('must be there: neither nothing nor the client without a transaction is enough', async () => {
    const { app } = await open()
    const orders = provided<Orders>(app, Orders)
    const refused = { code: 'POSTHASTE_NO_TRANSACTION' }
    await expect(orders.placeWithoutTransaction('o-1')).rejects.toMatchObject(refused)
    await expect(orders.placeWithTheFallback('o-1')).rejects.toMatchObject(refused)
    expect((await orders.outbox.inspect.list()).deliveries).toEqual([])
  })

  it('is over for whoever goes on without being awaited', async () => {
    const { app } = await open()
    const orders = provided<Orders>(app, Orders)
    let goOn = (): void => {}
    const mayGoOn = new Promise<void>((resolve) => {
      goOn = resolve
    })
    const { late } = await orders.leaveUndone('o-1', mayGoOn)
    goOn()
    await expect(late).rejects.toMatchObject({ code: 'POSTHASTE_NO_TRANSACTION' })
    expect((await orders.outbox.inspect.list()).deliveries).toEqual([])
  })

  it('must be the only one, or it would be a guess', async () => {
    const { app } = await open()
    const orders = provided<Orders>(app, Orders)
    await expect(orders.placeInTwo('o-1')).rejects.toMatchObject({ code: 'POSTHASTE_CONFLICT' })
    expect((await orders.outbox.inspect.list()).deliveries).toEqual([])
  })

  it('leaves the rest of the outbox as it is', async () => {
    const { app } = await open()
    const outbox = provided<Outbox<EntityManager>>(app, getOutboxToken() as string)
    await outbox.transaction(async (tx) => {
      await tx.query(`INSERT INTO ${schema}.orders VALUES ('o-9')`)
      await outbox.publish({ type: 'order.placed', payload: { id: 'o-9' } })
    })
    await provided<Audit>(app, Audit).count(1)
    expect(outbox.isStarted).toBe(true)
  })
})
