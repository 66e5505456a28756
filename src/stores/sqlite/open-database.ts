/**
 * Opens the connections of a store.
 *
 *   file                 the store's connection on it, and one for the application's transactions
 *   application's handle the store's connection on the same file; transactions run on the handle
 *   memory               a single connection for everything, always under the mutex
 */
import { existsSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { ERROR_CODES, StoreError } from '../../core/errors.ts'
import type { StoreContext } from '../../core/spi/index.ts'
import { connectionOf, fileOf, type SqliteConnection } from './connection.ts'
import {
  checkAge,
  type DriverConstructor,
  type DriverHandle,
  driverOf,
  loadDriver,
  type SqliteDriver,
} from './drivers.ts'
import { isBusy, sqliteCode } from './errors.ts'
import type { ResolvedSqliteOptions } from './options.ts'
import { mutexOfHandle, mutexOfPath, type WriteMutex } from './write-mutex.ts'

/** How long one call may stop the event loop while it waits for a lock. */
export const BLOCKING_BUDGET_MS = 2

export interface OpenDatabase {
  readonly context: StoreContext
  /** The store's own; in memory the only one. */
  readonly own: SqliteConnection
  /** What the application's transactions run on. */
  readonly application: SqliteConnection
  readonly mutex: WriteMutex
  readonly memory: boolean
  /** Path of the file, empty for memory. */
  readonly file: string
  readonly close: () => void
}

const isMemory = (file: string): boolean => file === ':memory:' || /^file:.*[?&]mode=memory/.test(file)

const pathOf = (file: string): string =>
  resolve(
    file.startsWith('file:') ? decodeURIComponent(file.slice('file:'.length).split('?')[0] ?? '') : file,
  )

/** Two spellings of one file must share a mutex. The file may not exist yet; its folder has to. */
export const realPath = (file: string): string => {
  const path = pathOf(file)
  const folder = dirname(path)
  if (!existsSync(folder)) {
    throw new StoreError(
      ERROR_CODES.storeUnavailable,
      `The database ${path} cannot be opened: the folder ${folder} does not exist. Create it first.`,
    )
  }
  if (!existsSync(path)) return join(realpathSync(folder), basename(path))
  if (statSync(path).isDirectory()) {
    throw new StoreError(
      ERROR_CODES.storeUnavailable,
      `The database ${path} cannot be opened: it is a directory. Name a file in it.`,
    )
  }
  return realpathSync(path)
}

/** For whoever only looks: opening would make it. Whoever cannot open one cannot make one either, and hears of that first. */
export const requireFile = async ({ source, driver }: ResolvedSqliteOptions): Promise<void> => {
  if (!('file' in source) || isMemory(source.file) || existsSync(pathOf(source.file))) return
  await loadDriver(driver)
  // Where its folder is missing, too, nobody can make it.
  realPath(source.file)
  throw new StoreError(
    ERROR_CODES.storeUnavailable,
    `there is no file ${pathOf(source.file)}; posthaste migrate makes it, with its tables`,
    { missingFile: source.file },
  )
}

const pause = ({ runtime }: StoreContext): Promise<void> =>
  new Promise((wake) => runtime.schedule(5 + 10 * runtime.random(), wake))

/** Settings look into the file and changing the mode needs it alone, so both may meet another process there. */
const configure = (connection: SqliteConnection): void => {
  connection.exec(`PRAGMA busy_timeout = ${BLOCKING_BUDGET_MS}`)
  // FULL also in WAL mode: with NORMAL a power cut takes back commits that were already dispatched.
  connection.exec('PRAGMA synchronous = FULL')
  connection.exec('PRAGMA foreign_keys = OFF')
  const [[mode] = []] = connection.rows('PRAGMA journal_mode')
  if (mode === 'wal') return
  try {
    connection.rows('PRAGMA journal_mode = WAL')
  } catch (error) {
    // A file that cannot be written is still good for reading; the first write will say what is wrong.
    if (sqliteCode(error) !== 'READONLY') throw error
  }
}

interface Library {
  readonly driver: SqliteDriver
  readonly open: DriverConstructor
}

const connect = async (
  context: StoreContext,
  { driver, open }: Library,
  file: string,
  options: ResolvedSqliteOptions,
): Promise<SqliteConnection> => {
  const { runtime } = context
  const connection = connectionOf(driver, new open(file), options.onStatement)
  const startedAt = runtime.monotonicNow()
  for (;;) {
    try {
      configure(connection)
      return connection
    } catch (error) {
      if (!isBusy(error) || runtime.monotonicNow() - startedAt >= options.busyTimeoutMs) {
        connection.close()
        throw error
      }
      await pause(context)
    }
  }
}

/**
 * libsql keeps a file open until its statements are collected as garbage, so closing does not empty the log as it does with
 * the others, and whoever copies the file alone would miss what is in it. Does what can be done at once; who else uses the file
 * is not waited for.
 */
const emptyLog = (connection: SqliteConnection): void => {
  try {
    connection.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  } catch {
    // Closing goes on: nothing is lost, what is in the log is read from there.
  }
}

const openFile = async (
  context: StoreContext,
  file: string,
  options: ResolvedSqliteOptions,
): Promise<OpenDatabase> => {
  const library = await loadDriver(options.driver)
  if (isMemory(file)) {
    const only = connectionOf(library.driver, new library.open(':memory:'), options.onStatement)
    const mutex = mutexOfHandle(only.handle)
    return { context, own: only, application: only, mutex, memory: true, file: '', close: () => only.close() }
  }
  const path = realPath(file)
  const isNew = !existsSync(path)
  const { mutex, dispose } = mutexOfPath(path)
  const opened: SqliteConnection[] = []
  const close = (): void => {
    const [first] = opened
    if (library.driver === 'libsql' && first !== undefined) emptyLog(first)
    for (const connection of opened) connection.close()
    dispose()
  }
  try {
    for (let i = 0; i < 2; i++) opened.push(await connect(context, library, file, options))
  } catch (error) {
    close()
    throw error
  }
  // A process that was started in another folder than it was meant to be would begin with an empty one unseen.
  if (isNew) context.logger.log('info', 'the SQLite database was not there and is made', { file: path })
  const [own, application] = opened as [SqliteConnection, SqliteConnection]
  return { context, own, application, mutex, memory: false, file: fileOf(own), close }
}

const warnAboutDurability = ({ logger }: StoreContext, application: SqliteConnection): void => {
  const level = Number(application.rows('PRAGMA synchronous')[0]?.[0])
  if (level >= 2) return
  logger.log(
    'warn',
    'your database runs with PRAGMA synchronous below FULL: a power cut can take back a commit whose events were already sent',
    { synchronous: level },
  )
}

const openBeside = async (
  context: StoreContext,
  handle: DriverHandle,
  options: ResolvedSqliteOptions,
): Promise<OpenDatabase> => {
  const driver = options.driver ?? driverOf(handle)
  if (driver === null) {
    throw new StoreError(
      ERROR_CODES.unsupported,
      'The option database is not an open database of better-sqlite3, libsql or node:sqlite.',
    )
  }
  checkAge(driver, handle)
  const application = connectionOf(driver, handle, options.onStatement)
  const file = fileOf(application)
  if (file === '') {
    const mutex = mutexOfHandle(handle)
    return { context, own: application, application, mutex, memory: true, file, close: () => undefined }
  }
  warnAboutDurability(context, application)
  const { mutex, dispose } = mutexOfPath(realPath(file))
  try {
    // The class that made the handle is certainly there, and certainly the right one.
    const own = await connect(
      context,
      { driver, open: handle.constructor as DriverConstructor },
      file,
      options,
    )
    const close = (): void => {
      own.close()
      dispose()
    }
    return { context, own, application, mutex, memory: false, file, close }
  } catch (error) {
    dispose()
    throw error
  }
}

export const openDatabase = (context: StoreContext, options: ResolvedSqliteOptions): Promise<OpenDatabase> =>
  'file' in options.source
    ? openFile(context, options.source.file, options)
    : openBeside(context, options.source.database as DriverHandle, options)
