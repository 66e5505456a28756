/** The database of one run: a server of its own with nothing in it, or a file, on a small disk where that is possible. */
import { copyFileSync, existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { homeOfService, removeService, startService, stopService } from '../../scripts/services/index.ts'
import type { Place, StoreKind } from '../crew/messages.ts'
import type { Regime } from '../regime.ts'
import { type Disk, diskBytes, mountDisk, unmountDisk } from './disk.ts'
import type { Hand } from './hand.ts'
import { loadLibrary, openStore } from './stores.ts'

export interface Arena {
  readonly place: Place
  /** The server's name among the services; null for a file. */
  readonly server: string | null
  /** A pooler in front of it. */
  readonly pooler: { readonly name: string; readonly at: string } | null
  /** Or why there is none. */
  readonly disk: Disk | string
}

const SERVERS: Readonly<Record<Exclude<StoreKind, 'sqlite'>, string>> = {
  // PgBouncer of the services stands in front of this one.
  postgres: 'postgres',
  mysql: 'mysql',
  mariadb: 'mariadb',
}

export const openHand = async ({ kind, at }: Place): Promise<Hand> => {
  if (kind === 'postgres') return (await import('./postgres-hand.ts')).postgresHand(at)
  if (kind === 'sqlite') return (await import('./sqlite-hand.ts')).sqliteHand(at)
  return (await import('./mysql-hand.ts')).mysqlHand(at)
}

const openServer = async (
  kind: Exclude<StoreKind, 'sqlite'>,
  label: string,
  bytes: number,
): Promise<Arena> => {
  const server = `${SERVERS[kind]}@${label}`
  const pooler = kind === 'postgres' ? `pgbouncer@${label}` : null
  await removeArena(server, pooler)
  const home = await homeOfService(server)
  const disk = home === null ? 'the server runs in a container' : mountDisk(home, bytes)
  const at = await startService(server)
  const place: Place = { kind, at }
  return {
    place,
    server,
    disk,
    pooler: pooler === null ? null : { name: pooler, at: await startService(pooler) },
  }
}

/** What an interrupted run left behind may still be mounted. */
const removeArena = async (server: string, pooler: string | null): Promise<void> => {
  if (pooler !== null) await stopService(pooler)
  await stopService(server)
  const home = await homeOfService(server)
  if (home !== null) unmountIfMounted(home)
  await removeService(server)
}

const unmountIfMounted = (folder: string): void => {
  try {
    unmountDisk({ folder, sizeBytes: 0 })
  } catch {
    // It was not.
  }
}

export const openArena = async (
  kind: StoreKind,
  label: string,
  minutes: number,
  folder: string,
): Promise<Arena> => {
  if (kind !== 'sqlite') return await openServer(kind, label, diskBytes(minutes))
  const home = join(folder, 'disk')
  const disk = mountDisk(home, diskBytes(minutes))
  return { place: { kind, at: join(home, 'chaos.db') }, server: null, pooler: null, disk }
}

/** The tables of the outbox, by the given build. */
export const migrate = async ({ place }: Arena, build: string | null): Promise<void> => {
  const { createOutbox } = await loadLibrary(build)
  const outbox = createOutbox({ store: await openStore(place, build) })
  await outbox.schema.migrate()
  await outbox.close()
}

/** What the run itself needs in the database. */
export const setUp = async ({ place }: Arena, { transitions }: Regime): Promise<void> => {
  await using hand = await openHand(place)
  await hand.setUp()
  if (transitions) await hand.watchTransitions()
}

/** Where the database is now: a server that was away may have come back elsewhere. */
export const placeNow = async ({ place, server }: Arena): Promise<Place> =>
  server === null ? place : { ...place, at: await startService(server) }

/** What the server said itself, which tells how real a fault was. */
export const keepServerLog = async ({ server }: Arena, folder: string): Promise<void> => {
  const home = server === null ? null : await homeOfService(server)
  const log = home === null ? null : join(home, 'server.log')
  if (log !== null && existsSync(log)) copyFileSync(log, join(folder, 'server.log'))
}

export const closeArena = async ({ server, pooler, disk, place }: Arena): Promise<void> => {
  if (server !== null) {
    await removeArena(server, pooler?.name ?? null)
    return
  }
  if (typeof disk !== 'string') unmountDisk(disk)
  else if (existsSync(place.at)) rmSync(place.at)
}
