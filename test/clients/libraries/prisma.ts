/** Prisma with its adapters. Its client is generated, one per database, when a process first needs it. */
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { PrismaLibSql } from '@prisma/adapter-libsql'
import { PrismaMariaDb } from '@prisma/adapter-mariadb'
import { PrismaPg } from '@prisma/adapter-pg'
import { generatePrisma } from '../../../scripts/prisma.ts'
import {
  type PrismaDatabase,
  type PrismaTransaction,
  prismaTransactions,
} from '../../../src/clients/prisma.ts'
import type { TestDatabase } from '../databases.ts'
import type { OpenLibrary } from '../library.ts'

interface Tx extends PrismaTransaction, PrismaDatabase<Tx> {}

export interface Client extends Tx {
  $disconnect(): Promise<void>
}

interface Generated {
  readonly PrismaClient: new (options: { readonly adapter: unknown }) => Client
}

const PROVIDERS = { postgres: 'postgresql', mariadb: 'mysql', mysql: 'mysql', sqlite: 'sqlite' } as const

type Provider = (typeof PROVIDERS)[keyof typeof PROVIDERS]

const SCHEMA = (provider: Provider): string => `generator client {
  provider = "prisma-client"
  output   = "./client"
}

datasource db {
  provider = "${provider}"
}

model Order {
  id Int @id
}
`

const CACHE = join(import.meta.dirname, '..', '..', '..', '.cache')

/** Inside the project, so that what is generated finds Prisma's runtime; where it is, is the answer. */
const generate = async (provider: Provider): Promise<string> => {
  mkdirSync(CACHE, { recursive: true })
  const folder = mkdtempSync(join(CACHE, 'prisma-'))
  writeFileSync(join(folder, 'schema.prisma'), SCHEMA(provider))
  await generatePrisma(folder)
  return folder
}

const generated = new Map<Provider, Promise<Generated>>()

const clientFor = (provider: Provider): Promise<Generated> => {
  const known = generated.get(provider)
  if (known !== undefined) return known
  const made = generate(provider).then(
    (folder) => import(pathToFileURL(join(folder, 'client', 'client.ts')).href) as Promise<Generated>,
  )
  generated.set(provider, made)
  return made
}

const adapterFor = ({ name, url }: TestDatabase): unknown => {
  if (name === 'postgres') return new PrismaPg({ connectionString: url, max: 6 })
  if (name === 'sqlite') return new PrismaLibSql({ url: `file:${url}` })
  const { hostname, port, username, password, pathname } = new URL(url)
  return new PrismaMariaDb({
    host: hostname,
    port: Number(port),
    user: username,
    password,
    database: pathname.slice(1),
    connectionLimit: 6,
  })
}

export const prismaOn = async (database: TestDatabase): Promise<Client> => {
  const { PrismaClient } = await clientFor(PROVIDERS[database.name as keyof typeof PROVIDERS])
  return new PrismaClient({ adapter: adapterFor(database) })
}

export const openPrisma = async (database: TestDatabase): Promise<OpenLibrary<Tx>> => {
  const prisma = await prismaOn(database)
  return {
    transactions: prismaTransactions<Tx>(prisma, { timeout: 20_000, maxWait: 20_000 }),
    exec: async (tx, sql) => await tx.$executeRawUnsafe(sql),
    own: (fn) => prisma.$transaction(fn, { timeout: 20_000, maxWait: 20_000 }),
    ownNested: (tx, fn) => tx.$transaction(fn),
    outside: [prisma],
    close: () => prisma.$disconnect(),
  }
}
