/**
 * A place for tables that can be filled up. Where file systems can be mounted it is one of a few megabytes, as a
 * tablespace; elsewhere triggers say what the server would say. What an application sees is the same.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { PostgresWorld } from './postgres-world.ts'

export interface SmallDisk {
  readonly kind: 'mounted' | 'told'
  /** The world's server, for the tables that are to be made. */
  readonly url: string
  /** After the tables were made. */
  fill(): Promise<void>
  free(): Promise<void>
  /** After the tables were dropped. */
  remove(): Promise<void>
}

const run = (program: string, ...args: readonly string[]): boolean =>
  spawnSync(program, args, { stdio: 'ignore' }).status === 0

/** Writes until nothing fits any more, in ever smaller pieces. */
const fillUp = (file: string): void => {
  for (let size = 1 << 20; size >= 1; size = size >> 4) {
    for (;;) {
      try {
        writeFileSync(file, Buffer.alloc(size), { flag: 'a' })
      } catch {
        break
      }
    }
  }
}

const mounted = async (world: PostgresWorld): Promise<SmallDisk | null> => {
  const folder = mkdtempSync(join(tmpdir(), 'posthaste-disk-'))
  const remove = (): void => rmdirSync(folder)
  if (!run('mount', '-t', 'tmpfs', '-o', 'size=8m,mode=777', 'tmpfs', folder)) {
    remove()
    return null
  }
  const unmount = (): void => {
    run('umount', folder)
    remove()
  }
  const space = `${world.schema}_disk`
  try {
    const data = join(folder, 'data')
    mkdirSync(data)
    const [row] = await world.rows<{ data_directory: string }>('SHOW data_directory')
    // The folder must belong to whoever the server runs as.
    if (!run('chown', `--reference=${row?.data_directory}`, data)) throw new Error('the server is elsewhere')
    chmodSync(data, 0o700)
    await world.rows(`CREATE TABLESPACE ${space} LOCATION '${data}'`)
  } catch {
    unmount()
    return null
  }
  const filler = join(folder, 'filler')
  const url = new URL(world.url)
  url.searchParams.set('options', `-c default_tablespace=${space}`)
  return {
    kind: 'mounted',
    url: url.href,
    fill: async () => fillUp(filler),
    free: async () => rmSync(filler),
    async remove() {
      await world.rows(`DROP TABLESPACE ${space}`)
      unmount()
    },
  }
}

const told = (world: PostgresWorld): SmallDisk => {
  const TABLES = ['events', 'deliveries', 'finished', 'workers', 'lanes']
  return {
    kind: 'told',
    url: world.url,
    async fill() {
      await world.rows(`CREATE OR REPLACE FUNCTION {schema}.full_disk() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RAISE EXCEPTION USING ERRCODE = ''53100'', MESSAGE = ''could not extend file: No space left''; END'`)
      for (const table of TABLES)
        await world.rows(
          `CREATE TRIGGER full_disk BEFORE INSERT ON {schema}.${table} EXECUTE FUNCTION {schema}.full_disk()`,
        )
    },
    async free() {
      for (const table of TABLES) await world.rows(`DROP TRIGGER full_disk ON {schema}.${table}`)
    },
    remove: async () => undefined,
  }
}

export const createSmallDisk = async (world: PostgresWorld): Promise<SmallDisk> =>
  (await mounted(world)) ?? told(world)
