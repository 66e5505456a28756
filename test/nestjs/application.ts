/** Nest applications for the tests here: real ones, that listen on a port of this machine. */
import 'reflect-metadata'
import type { AddressInfo } from 'node:net'
import type { INestApplication, ModuleMetadata, Type } from '@nestjs/common'
import { Test, type TestingModuleBuilder } from '@nestjs/testing'
import type { OutboxEvent } from '../../src/index.ts'

export interface Running {
  readonly app: INestApplication
  get(path: string): Promise<{ readonly status: number; readonly body: unknown }>
  post(path: string, body?: unknown): Promise<{ readonly status: number; readonly body: unknown }>
}

const running = new Set<INestApplication>()

/** What a test did not close itself. */
export const closeAll = async (): Promise<void> => {
  for (const app of running) await app.close()
  running.clear()
}

const asker = (url: string, method: string) => async (path: string, body?: unknown) => {
  const response = await fetch(url + path, {
    method,
    // Without it the server would wait for the connection when it closes.
    headers: { 'content-type': 'application/json', connection: 'close' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, body: text === '' ? null : (JSON.parse(text) as unknown) }
}

export const listen = async (
  metadata: ModuleMetadata,
  prepare: (builder: TestingModuleBuilder) => TestingModuleBuilder = (builder) => builder,
): Promise<Running> => {
  const module = await prepare(Test.createTestingModule(metadata)).compile()
  const app = module.createNestApplication({ logger: false })
  running.add(app)
  await app.listen(0, '127.0.0.1')
  const url = `http://127.0.0.1:${(app.getHttpServer().address() as AddressInfo).port}`
  return { app, get: asker(url, 'GET'), post: asker(url, 'POST') }
}

/** An application without a port. */
export const start = async (metadata: ModuleMetadata): Promise<INestApplication> => {
  const module = await Test.createTestingModule(metadata).compile()
  const app = module.createNestApplication({ logger: false })
  running.add(app)
  return await app.init()
}

/** Events that somebody heard, and a way to wait for them. */
export class Heard {
  readonly events: OutboxEvent[] = []
  #waiting: (() => void)[] = []

  add(event: OutboxEvent): void {
    this.events.push(event)
    for (const tell of this.#waiting.splice(0)) tell()
  }

  get types(): string[] {
    return this.events.map(({ type }) => type)
  }

  /** Resolves when so many were heard. */
  async count(wanted: number): Promise<readonly OutboxEvent[]> {
    while (this.events.length < wanted) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    return this.events
  }
}

export const provided = <T>(app: INestApplication, token: Type<T> | string | symbol | object): T =>
  app.get<T>(token as Type<T>, { strict: false })
