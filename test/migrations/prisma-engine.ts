/**
 * Prisma's schema engine, built for WebAssembly: the commands of Prisma call the same engine as a program that they
 * download. It talks to the database through Prisma's adapters. Those split scripts at every semicolon or run none, so
 * scripts are sent here as that program sends them: whole.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { createClient } from '@libsql/client'
import { PrismaLibSql } from '@prisma/adapter-libsql'
import { PrismaMariaDb } from '@prisma/adapter-mariadb'
import { PrismaPg } from '@prisma/adapter-pg'
import {
  bindMigrationAwareSqlAdapterFactory,
  type SqlDriverAdapter,
  type SqlMigrationAwareDriverAdapterFactory,
} from '@prisma/driver-adapter-utils'
import * as glue from '@prisma/schema-engine-wasm/schema_engine_bg'
import mysql from 'mysql2/promise'
import pg from 'pg'
import type { EmptyDatabase } from './databases.ts'

type Engine = glue.SchemaEngine

/** What loads it expects a bundler; this is what one would make of it. */
const loadGlue = async (): Promise<typeof glue> => {
  const home = dirname(createRequire(import.meta.url).resolve('@prisma/schema-engine-wasm'))
  const module = await WebAssembly.compile(readFileSync(join(home, 'schema_engine_bg.wasm')))
  const { exports } = await WebAssembly.instantiate(module, { './schema_engine_bg.js': glue as never })
  glue.__wbg_set_wasm(exports)
  ;(exports as { __wbindgen_start?: () => void }).__wbindgen_start?.()
  return glue
}

let loading: Promise<typeof glue> | null = null

const settingsOf = (url: string) => {
  const { hostname, port, username, password, pathname } = new URL(url)
  return { host: hostname, port: Number(port), user: username, password, database: pathname.slice(1) }
}

/** One script at a time, on a connection of its own. */
const senders = {
  async postgres(url: string, script: string): Promise<void> {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    await client.query(script).finally(() => client.end())
  },
  async mariadb(url: string, script: string): Promise<void> {
    const connection = await mysql.createConnection({ uri: url, multipleStatements: true })
    await connection.query(script).finally(() => connection.end())
  },
  async sqlite(url: string, script: string): Promise<void> {
    const client = createClient({ url: `file:${url}` })
    await client.executeMultiple(script).finally(() => client.close())
  },
} as const

const connect = async ({ name }: Pick<EmptyDatabase, 'name'>, url: string): Promise<SqlDriverAdapter> => {
  const adapters = {
    postgres: () => new PrismaPg(settingsOf(url)),
    mariadb: () => new PrismaMariaDb(settingsOf(url)),
    sqlite: () => new PrismaLibSql({ url: `file:${url}` }),
  } as const
  const adapter = (await adapters[name]().connect()) as SqlDriverAdapter
  adapter.executeScript = (script) => senders[name](url, script)
  return adapter
}

/** Beside the database, and gone with the connection. */
const connectToShadow = async (database: EmptyDatabase): Promise<SqlDriverAdapter> => {
  const { name, url } = database
  if (name !== 'postgres') throw new Error(`there is no shadow database for ${name}`)
  const shadow = new URL(url)
  shadow.pathname = `${shadow.pathname}_shadow`
  const shadowName = shadow.pathname.slice(1)
  await senders.postgres(url, `CREATE DATABASE ${shadowName}`)
  const adapter = await connect(database, shadow.href)
  const dispose = adapter.dispose.bind(adapter)
  adapter.dispose = async () => {
    await dispose()
    await senders.postgres(url, `DROP DATABASE ${shadowName} WITH (FORCE)`)
  }
  return adapter
}

const PROVIDERS = { postgres: 'postgres', mariadb: 'mysql', sqlite: 'sqlite' } as const

export const openEngine = async (database: EmptyDatabase, schema: string): Promise<Engine> => {
  loading ??= loadGlue()
  const { SchemaEngine } = await loading
  const factory: SqlMigrationAwareDriverAdapterFactory = {
    provider: PROVIDERS[database.name],
    adapterName: 'test',
    connect: () => connect(database, database.url),
    connectToShadowDb: () => connectToShadow(database),
  }
  return await SchemaEngine.new(
    { datamodels: [['schema.prisma', schema]] },
    () => undefined,
    bindMigrationAwareSqlAdapterFactory(factory),
  )
}
