/** From files, environment and flags to outboxes that are ready to be used; nothing is connected yet. */
import { dirname, resolve } from 'node:path'
import type { AnyEventDefinition } from '../core/define-event.ts'
import { hostOf, type OutboxHost, type SettingsFromOutside } from '../core/host.ts'
import { hintFor } from '../core/model/unknown-names.ts'
import type { Outbox } from '../core/outbox-api.ts'
import { applySettings, type ResolvedSetting, resolvedSettings } from './apply.ts'
import type { OutboxMaker } from './define-config.ts'
import { ConfigError, refuseValue } from './errors.ts'
import { findConfigFile, loadModule, readConfigFile } from './files.ts'
import { type Addressed, requireNamed, saidOf } from './named-destinations.ts'
import { camelKeys, isEnabled, isSection, type Section, translateOutbox } from './seed-keys.ts'
import {
  lastWords,
  type Said,
  saidByFlag,
  saidInEnvironment,
  saidInFile,
  saidOfWorker,
  unknownVariables,
} from './settings.ts'
import { outboxAt, type StorePlace, settledAddress } from './url-outbox.ts'

export interface LoadOptions extends StorePlace {
  /** Where relative paths begin. Default the working directory. */
  readonly folder?: string
  readonly environment?: Readonly<Record<string, string | undefined>>
  readonly configFile?: string
  /** Only this outbox is made. */
  readonly outbox?: string
  /** Instead of any address in files and environment. */
  readonly url?: string
  /** `KEY=VALUE`, on top of everything. */
  readonly set?: readonly string[]
  /** Flags with names of their own. */
  readonly said?: readonly Said[]
  /** Under the settings, and over the code: a logger for outboxes without one, for example. */
  readonly under?: (given: OutboxHost['given'], loaded: LoadedWith) => SettingsFromOutside
}

/** What is known of an outbox when its settings are settled. */
export interface LoadedWith {
  readonly name: string
  readonly worker: WorkerSettings
}

export interface LoadedOutbox {
  readonly name: string
  readonly outbox: Outbox<unknown>
  readonly host: OutboxHost
  /** The address with its password, where there is one outside of the code. */
  readonly url: { readonly value: string; readonly from: string } | null
  /** False: an address is all that is known, and what the configurations of its workers say is not. */
  readonly hasCode: boolean
  readonly settings: readonly ResolvedSetting[]
  /** `outbox-processor-<database>-to-<destination>` */
  readonly processors: readonly string[]
  /** Settles settings again, for an outbox that is not started. */
  configure(extra: SettingsFromOutside): void
}

export interface WorkerSettings {
  readonly workers: number
  readonly healthPort: number | null
  readonly healthHost: string
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent'
}

export interface LoadedConfig {
  readonly file: string | null
  readonly enabled: boolean
  readonly outboxes: readonly LoadedOutbox[]
  readonly worker: WorkerSettings
  readonly workerSettings: readonly ResolvedSetting[]
  readonly events: readonly AnyEventDefinition[]
  /** Variables that begin with POSTHASTE_ and mean nothing. */
  readonly unknownVariables: readonly string[]
}

const ROOT_KEYS = [
  'outboxes',
  'outbox',
  'worker',
  'events',
  'subscription',
  'enableOutbox',
  'server',
  'databases',
]
const PLACE_KEYS = ['url', 'module', 'outbox', 'schema', 'prefix', 'layout', 'period'] as const
const WORKER_DEFAULTS: WorkerSettings = {
  workers: 1,
  healthPort: null,
  healthHost: '127.0.0.1',
  logLevel: 'info',
}
const URL_VARIABLES = ['POSTHASTE_DATABASE_URL', 'OUTBOX_DB_URL', 'DATABASE_URL']

interface Entry {
  readonly name: string
  readonly section: Section
}

/** Accepts what people write, and gives one shape: a section per outbox. */
const entriesOf = (root: Section, where: string): readonly Entry[] => {
  const databases = root.databases === undefined ? {} : root.databases
  if (!isSection(databases)) return refuseValue('databases', databases, 'a section per database', where)
  const fromDatabases = Object.entries(databases).map(([name, one]) => {
    if (!isSection(one)) return refuseValue(`databases.${name}`, one, 'a section with database_uri', where)
    const { provider: _, databaseUri, ...rest } = camelKeys(one, `databases.${name}`, where)
    return { name, section: { ...rest, ...(databaseUri === undefined ? {} : { url: databaseUri }) } }
  })
  const { outboxes } = root
  if (outboxes === undefined) return fromDatabases
  if (!isSection(outboxes))
    return refuseValue('outboxes', outboxes, 'an object of outboxes by their names', where)
  const own = Object.entries(outboxes).map(([name, one]) => {
    if (typeof one === 'function' || hostOf(one) !== null) return { name, section: { outbox: one } }
    if (isSection(one)) return { name, section: one }
    return refuseValue(
      `outboxes.${name}`,
      one,
      'what createOutbox returns, a function that makes one, or a section with url or module',
      where,
    )
  })
  return [...fromDatabases, ...own]
}

const checkRoot = (root: unknown, where: string): Section => {
  if (!isSection(root)) return refuseValue('the configuration', root, 'an object with outboxes', where)
  const plain = camelKeys(root, '', where)
  for (const key of Object.keys(plain)) {
    if (ROOT_KEYS.includes(key)) continue
    const hint =
      key === 'brokers'
        ? '; destinations are code: declare them in createOutbox, and name the module that exports it'
        : hintFor(key, new Set(ROOT_KEYS))
    throw new ConfigError(`${key} is not a key of the configuration${hint} (${where})`, { key })
  }
  return plain
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/

interface Surroundings {
  /** Where the file lies; without one, the same as `start`. */
  readonly folder: string
  readonly start: string
  readonly where: string
  readonly options: LoadOptions
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly worker: WorkerSettings
}

type Address = { readonly value: string; readonly from: string } | null

/** Paths of a file begin where it lies, those of a flag or a variable where the process is. */
const addressOf = (
  section: Section,
  key: string,
  { options, environment, where, folder, start }: Surroundings,
): Address => {
  if (options.url !== undefined) return { value: settledAddress(options.url, start), from: '--url' }
  if (section.url !== undefined) {
    if (typeof section.url !== 'string' || section.url === '')
      refuseValue(`${key}.url`, typeof section.url, 'the address of a database', where)
    return { value: settledAddress(section.url as string, folder), from: where }
  }
  const variable = URL_VARIABLES.find((name) => (environment[name] ?? '') !== '')
  if (variable === undefined) return null
  return { value: settledAddress(environment[variable] as string, start), from: variable }
}

const fromModule = async (
  key: string,
  module: unknown,
  { folder, where }: Surroundings,
): Promise<unknown> => {
  if (typeof module !== 'string') return refuseValue(`${key}.module`, module, 'the path of a file', where)
  const path = resolve(folder, module)
  const exported = await loadModule(path)
  // A CommonJS module inside of an ES module namespace has its exports one level deeper.
  const inner = (exported.default ?? {}) as Readonly<Record<string, unknown>>
  const found = exported.outbox ?? inner.outbox ?? inner.default ?? exported.default
  if (typeof found === 'function' || hostOf(found) !== null) return found
  throw new ConfigError(`${path} exports no outbox: export it as default, or as "outbox"`, {
    key,
    file: path,
  })
}

const makeOutbox = async ({ name, section }: Entry, around: Surroundings): Promise<[unknown, Address]> => {
  const key = `outboxes.${name}`
  const ways = (['outbox', 'module'] as const).filter((way) => section[way] !== undefined)
  if (ways.length > 1) throw new ConfigError(`${key} has both outbox and module; keep one of them`, { key })
  const address = addressOf(section, key, around)
  const code = section.module === undefined ? section.outbox : await fromModule(key, section.module, around)
  if (typeof code === 'function')
    return [await (code as OutboxMaker)({ name, databaseUrl: address?.value ?? null }), address]
  if (code !== undefined && around.options.url !== undefined) {
    throw new ConfigError(
      `${key} is code that names its own database, so --url cannot: give one of the two`,
      {
        key,
      },
    )
  }
  if (code !== undefined) return [code, null]
  if (address === null) {
    throw new ConfigError(
      `${key} has neither outbox, module nor url; name one, or set POSTHASTE_DATABASE_URL, OUTBOX_DB_URL or DATABASE_URL`,
      { key },
    )
  }
  const { schema, prefix, layout, period } = { ...section, ...definedOf(around.options) } as StorePlace
  const place = { schema, prefix, layout, period } as StorePlace
  const what = address.from === around.where ? `${key}.url (${around.where})` : address.from
  return [await outboxAt(address.value, place, what), address]
}

const definedOf = ({ schema, prefix, layout, period }: StorePlace): StorePlace =>
  Object.fromEntries(
    Object.entries({ schema, prefix, layout, period }).filter(([, value]) => value !== undefined),
  )

/** Made, and not settled yet: what is said for all outboxes can be judged only when all of them are known. */
interface Made extends Addressed {
  readonly outbox: Outbox<unknown>
  readonly host: OutboxHost
  readonly url: Address
  readonly hasCode: boolean
}

const makeLoaded = async (
  entry: Entry,
  around: Surroundings,
  common: readonly Said[],
  onTop: readonly (readonly Said[])[],
): Promise<Made> => {
  const { name, section } = entry
  if (!NAME.test(name))
    refuseValue('the name of an outbox', name, '1 to 64 letters, digits, - or _', around.where)
  const [outbox, url] = await makeOutbox(entry, around)
  const host = hostOf(outbox)
  if (host === null)
    throw new ConfigError(`outboxes.${name} did not make an outbox: return what createOutbox returns`)
  const settings = Object.fromEntries(
    Object.entries(section).filter(([key]) => !(PLACE_KEYS as readonly string[]).includes(key)),
  )
  const own = saidInFile(
    `outboxes.${name}`,
    translateOutbox(settings, `outboxes.${name}`, around.where),
    around.where,
  )
  const said = lastWords([common, own, ...onTop]).filter(({ setting }) => setting.scope !== 'worker')
  const declared = host.declared().map((destination) => destination.name)
  const hasCode = section.outbox !== undefined || section.module !== undefined
  return { name, outbox: outbox as Outbox<unknown>, host, url, hasCode, declared, said, own }
}

const settle = (made: Made, { options, worker }: Surroundings): LoadedOutbox => {
  const { name, outbox, host, url, hasCode } = made
  const said = saidOf(made)
  const under = options.under?.(host.given, { name, worker }) ?? {}
  const configure = (extra: SettingsFromOutside): void => applySettings(host, said, { ...under, ...extra })
  configure({})
  return {
    name,
    outbox,
    host,
    url,
    hasCode,
    settings: resolvedSettings(host, said),
    get processors() {
      return host.served().map((destination) => `outbox-processor-${name}-to-${destination.name}`)
    },
    configure,
  }
}

const workerOf = (places: readonly (readonly Said[])[]): readonly ResolvedSetting[] => {
  const given = lastWords(places).filter(({ setting }) => setting.scope === 'worker')
  return Object.entries(WORKER_DEFAULTS).map(([key, fallback]) => {
    const one = given.find(({ setting }) => setting.name === key)
    return {
      key,
      value: one?.value ?? fallback,
      origin: one?.origin ?? { kind: 'default', where: '' },
    }
  })
}

const checkBounds = (settings: readonly ResolvedSetting[]): WorkerSettings => {
  const bounds: Readonly<Record<string, readonly [number, number]>> = {
    workers: [1, 100],
    healthPort: [0, 65_535],
  }
  for (const { key, value, origin } of settings) {
    const [low, high] = bounds[key] ?? [0, 0]
    if (!(key in bounds) || value === null) continue
    if (!Number.isInteger(value) || Number(value) < low || Number(value) > high)
      refuseValue(
        origin.kind === 'file' ? `worker.${key}` : key,
        value,
        `a whole number from ${low} to ${high}`,
        origin.where,
      )
  }
  return Object.fromEntries(settings.map(({ key, value }) => [key, value])) as unknown as WorkerSettings
}

const eventsOf = (events: unknown, where: string): readonly AnyEventDefinition[] => {
  if (events === undefined) return []
  const list = Array.isArray(events) ? events : isSection(events) ? Object.values(events) : null
  const isDefinition = (one: unknown): boolean =>
    typeof (one as { readonly type?: unknown })?.type === 'string'
  if (list?.every(isDefinition)) return list as AnyEventDefinition[]
  return refuseValue('events', events, 'a list of what defineEvent returns', where)
}

const chosen = (entries: readonly Entry[], only: string | undefined): readonly Entry[] => {
  if (only === undefined) return entries
  const found = entries.filter(({ name }) => name === only)
  if (found.length > 0) return found
  const names = new Set(entries.map(({ name }) => name))
  throw new ConfigError(`there is no outbox "${only}"${hintFor(only, names)}`, { key: 'outbox', value: only })
}

const rootOf = async (
  folder: string,
  file: string | null,
  address: boolean,
): Promise<{ readonly root: Section; readonly where: string }> => {
  if (file !== null) return { root: checkRoot(await readConfigFile(file), file), where: file }
  if (address) return { root: { outboxes: { default: {} } }, where: 'no configuration file' }
  throw new ConfigError(
    `there is no posthaste.config.ts, .js, .mjs, .json or .toml in ${folder}; run posthaste init to make one, ` +
      'name one with --config, or give the address of a database with --url or DATABASE_URL',
  )
}

export const loadConfig = async (options: LoadOptions = {}): Promise<LoadedConfig> => {
  const environment = options.environment ?? process.env
  const start = options.folder ?? process.cwd()
  // An address on the command line means that database, whatever lies in the folder or in the environment.
  const file =
    options.url !== undefined && options.configFile === undefined
      ? null
      : findConfigFile(start, options.configFile ?? environment.POSTHASTE_CONFIG)
  const hasAddress =
    options.url !== undefined || URL_VARIABLES.some((name) => (environment[name] ?? '') !== '')
  const { root, where } = await rootOf(start, file, hasAddress)
  const enabled = isEnabled(root, where)
  const section = root.outbox ?? {}
  if (!isSection(section)) return refuseValue('outbox', section, 'a section with settings', where)
  const workerSection = root.worker ?? {}
  if (!isSection(workerSection)) return refuseValue('worker', workerSection, 'a section with settings', where)
  const common = saidInFile('outbox', translateOutbox(section, 'outbox', where), where)
  const onTop = [
    saidInEnvironment(environment),
    [...(options.set ?? []).map(saidByFlag), ...(options.said ?? [])],
  ]
  const workerSettings = workerOf([saidOfWorker(workerSection, where), ...onTop])
  const only = options.outbox ?? (file === null ? undefined : environment.POSTHASTE_OUTBOX)
  const all = entriesOf(root, where)
  const entries = chosen(all, only)
  if (entries.length === 0)
    throw new ConfigError(`outboxes is empty; name at least one (${where})`, { key: 'outboxes' })
  const worker = checkBounds(workerSettings)
  const around = { folder: file === null ? start : dirname(file), start, where, options, environment, worker }
  const made: Made[] = []
  for (const entry of entries) made.push(await makeLoaded(entry, around, common, onTop))
  requireNamed(made, entries.length < all.length)
  return {
    file,
    enabled,
    outboxes: made.map((one) => settle(one, around)),
    worker,
    workerSettings,
    events: eventsOf(root.events, where),
    unknownVariables: unknownVariables(environment),
  }
}
