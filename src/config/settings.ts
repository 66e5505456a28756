/**
 * Values from files, the environment and flags, each with the place where it was said. Later places win:
 * default < code < file < environment < flag.
 */
import { hintFor, meantText, nearestName } from '../core/model/unknown-names.ts'
import { ConfigError, requireOne } from './errors.ts'
import { readValue } from './read-value.ts'
import { camelKeys, isSection, type Section } from './seed-keys.ts'
import { fullName, namesIn, SETTINGS, type Setting, type SettingScope, variablesOf } from './setting-table.ts'

export interface Origin {
  readonly kind: 'default' | 'code' | 'file' | 'environment' | 'flag'
  /** The file, the variable or the flag. */
  readonly where: string
}

export interface Said {
  readonly setting: Setting
  /** Null: for all of them, or not about destinations. */
  readonly destination: string | null
  readonly value: unknown
  readonly origin: Origin
  /** Of a file, the whole key: `outboxes.shop.retry.maxAttempts`. */
  readonly key?: string
}

/** `pollIntervalMs`, `retry.maxAttempts`, `concurrency`, `destinations.mailer.concurrency` */
export const keyOf = ({ setting, destination }: Pick<Said, 'setting' | 'destination'>): string =>
  destination === null ? fullName(setting) : `destinations.${destination}.${setting.name}`

const settingsOf = (...scopes: readonly SettingScope[]): ReadonlyMap<string, Setting> =>
  new Map(
    SETTINGS.filter(({ scope }) => scopes.includes(scope)).flatMap((setting) =>
      namesIn(setting).map((name) => [name, setting] as const),
    ),
  )

const OUTBOX_KEYS = settingsOf('outbox', 'destination')
const RETRY_KEYS = settingsOf('retry')
const RETRY_NAMES = [...RETRY_KEYS.keys()].map((name) => `retry.${name}`)
const DESTINATION_KEYS = settingsOf('destination')
const WORKER_KEYS = settingsOf('worker')

const readSection = (
  at: string,
  section: Section,
  known: ReadonlyMap<string, Setting>,
  origin: Origin,
  destination: string | null = null,
  extra: readonly string[] = [],
): Said[] => {
  const names = new Map<Setting, string>()
  return Object.entries(camelKeys(section, at, origin.where)).flatMap(([key, value]) => {
    if (value === undefined) return []
    const setting = known.get(key)
    const name = at === '' ? key : `${at}.${key}`
    if (setting === undefined) {
      const hint = hintFor(key, new Set([...known.keys(), ...extra]))
      throw new ConfigError(`${name} is not a setting${hint} (${origin.where})`, { key: name })
    }
    requireOne(names.get(setting), name, origin.where)
    names.set(setting, name)
    const read = readValue(setting, name, value, origin.where, false)
    return [{ setting, destination, value: read, origin, key: name }]
  })
}

const sectionAt = (key: string, value: unknown, where: string): Section => {
  if (isSection(value)) return value
  throw new ConfigError(`${key} must be a section with settings (${where})`, { key })
}

/** Settings of a file's section; `retry` and `destinations` are sections within it. */
export const saidInFile = (at: string, section: Section, file: string): Said[] => {
  const origin: Origin = { kind: 'file', where: file }
  const { retry, destinations, ...flat } = section
  const said = readSection(at, flat, OUTBOX_KEYS, origin, null, ['retry', 'destinations'])
  const under = (key: string): string => (at === '' ? key : `${at}.${key}`)
  if (retry !== undefined)
    said.push(...readSection(under('retry'), sectionAt(under('retry'), retry, file), RETRY_KEYS, origin))
  if (destinations === undefined) return said
  for (const [name, one] of Object.entries(sectionAt(under('destinations'), destinations, file))) {
    const key = under(`destinations.${name}`)
    said.push(...readSection(key, sectionAt(key, one, file), DESTINATION_KEYS, origin, name))
  }
  return said
}

export const saidOfWorker = (section: Section, file: string): Said[] =>
  readSection('worker', section, WORKER_KEYS, { kind: 'file', where: file })

type Environment = Readonly<Record<string, string | undefined>>

export const saidInEnvironment = (environment: Environment): Said[] =>
  SETTINGS.flatMap((setting) => {
    const [variable, other] = variablesOf(setting).filter((name) => environment[name] !== undefined)
    if (variable === undefined) return []
    if (other !== undefined) requireOne(variable, other, 'environment')
    const value = readValue(setting, variable, environment[variable], 'environment', true)
    return [{ setting, destination: null, value, origin: { kind: 'environment', where: variable } }]
  })

/** Variables that begin like ours and mean nothing: a slip of the pen must not go unseen. */
export const unknownVariables = (environment: Environment): readonly string[] => {
  const known = new Set([...SETTINGS.flatMap(variablesOf), ...OTHER_VARIABLES])
  return Object.keys(environment).filter((name) => name.startsWith('POSTHASTE_') && !known.has(name))
}

/** What the loader and the command line read beside settings. */
const OTHER_VARIABLES = [
  'POSTHASTE_CONFIG',
  'POSTHASTE_OUTBOX',
  'POSTHASTE_DATABASE_URL',
  'POSTHASTE_WORKER_INDEX',
  'POSTHASTE_WORKER_JSON',
]

/** How a key is written behind `--set`, by its last word: that is what a slip is compared with, wherever it was looked for. */
const WRITTEN: ReadonlyMap<string, string> = new Map([
  ...[...OUTBOX_KEYS.keys(), ...WORKER_KEYS.keys()].map((name) => [name, name] as const),
  ...[...RETRY_KEYS.keys()].map((name) => [name, `retry.${name}`] as const),
])

/** Of one destination only its own keys can be set. */
const hintForKey = (group: string | null, name: string, known: ReadonlyMap<string, Setting>): string => {
  const own = new Map([...known.keys()].map((one) => [one, group === null ? one : `${group}.${one}`]))
  const written = new Map([...WRITTEN, ...own])
  const near = nearestName(name, new Set(own.keys())) ?? nearestName(name, new Set(written.keys()))
  if (near !== null) return meantText(written.get(near) ?? near)
  return hintFor(name, new Set([...own.values(), ...(group === null ? RETRY_NAMES : [])]))
}

/** `--set pollInterval=5s`, `--set mailer.concurrency=2`, `--set retry.maxAttempts=3` */
export const saidByFlag = (assignment: string): Said => {
  const cut = assignment.indexOf('=')
  if (cut < 1) throw new ConfigError(`--set takes KEY=VALUE, such as pollInterval=5s; not "${assignment}"`)
  const [key, text] = [assignment.slice(0, cut).trim(), assignment.slice(cut + 1).trim()]
  const origin: Origin = { kind: 'flag', where: `--set ${key}` }
  const dot = key.lastIndexOf('.')
  const [group, name] = dot < 0 ? [null, key] : [key.slice(0, dot), key.slice(dot + 1)]
  const destination = group === null || group === 'retry' ? null : group.replace(/^destinations\./, '')
  const known =
    group === 'retry'
      ? RETRY_KEYS
      : group === null
        ? new Map([...OUTBOX_KEYS, ...WORKER_KEYS])
        : DESTINATION_KEYS
  const setting = known.get(name)
  if (setting === undefined)
    throw new ConfigError(`${key} is not a setting${hintForKey(group, name, known)} (--set)`, { key })
  return { setting, destination, value: readValue(setting, key, text, '--set', true), origin }
}

/** A flag of the command line with a name of its own, such as `--workers`. */
export const saidByOption = (name: string, flag: string, text: string): Said => {
  const setting = SETTINGS.find((one) => one.name === name)
  if (setting === undefined) throw new Error(`there is no setting ${name}`)
  const value = readValue(setting, flag, text, 'flag', true)
  return { setting, destination: null, value, origin: { kind: 'flag', where: flag } }
}

/**
 * The last word on each key. Within a place what is said for one destination wins over what is said for all; a later
 * place wins over both.
 */
export const lastWords = (places: readonly (readonly Said[])[]): readonly Said[] => {
  let all: Said[] = []
  for (const place of places) {
    const general = new Set(
      place.filter(({ destination }) => destination === null).map(({ setting }) => setting),
    )
    all = all.filter(({ destination, setting }) => destination === null || !general.has(setting))
    all.push(...place)
  }
  return [...new Map(all.map((one) => [keyOf(one), one])).values()]
}
