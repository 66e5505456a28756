/** Settings from outside become options of an outbox; what its code said is remembered for `posthaste config`. */
import { ERROR_CODES, type OutboxError } from '../core/errors.ts'
import type { OutboxHost, SettingsFromOutside } from '../core/host.ts'
import { EXPONENTIAL_DEFAULTS, exponential, type RetryPolicy } from '../core/policy/retry.ts'
import { ConfigError } from './errors.ts'
import { fullName, SETTINGS } from './setting-table.ts'
import { keyOf, type Origin, type Said } from './settings.ts'

export interface ResolvedSetting {
  readonly key: string
  readonly value: unknown
  readonly origin: Origin
}

const pick = (said: readonly Said[], scope: string): Record<string, unknown> =>
  Object.fromEntries(
    said.flatMap(({ setting, destination, value }) =>
      setting.scope === scope && destination === null ? [[setting.name, value]] : [],
    ),
  )

const destinationsOf = (said: readonly Said[]): Record<string, Record<string, unknown>> => {
  const all: Record<string, Record<string, unknown>> = {}
  const everywhere = pick(said, 'destination')
  if (Object.keys(everywhere).length > 0) all['*'] = everywhere
  for (const { setting, destination, value } of said) {
    if (destination !== null) all[destination] = { ...all[destination], [setting.name]: value }
  }
  return all
}

export const settingsFrom = (said: readonly Said[]): SettingsFromOutside => {
  const retry = pick(said, 'retry')
  return {
    ...pick(said, 'outbox'),
    ...(Object.keys(retry).length === 0 ? {} : { retry: exponential(retry) }),
    destinations: destinationsOf(said),
  } as SettingsFromOutside
}

/** A refusal of the core in the words of whoever said the value. */
const blame = (error: unknown, said: readonly Said[]): unknown => {
  // By its code: the outbox may come from the other build of this package.
  const { code, detail, message } = error as Partial<OutboxError>
  if (code !== ERROR_CODES.invalidOption) return error
  const option = String(detail?.option)
  const last = option.split('.').at(-1)
  const guilty =
    said.find((one) => keyOf(one) === option) ?? said.find(({ setting }) => setting.name === last)
  if (guilty === undefined) return error
  const key = guilty.key ?? keyOf(guilty)
  const about = message?.startsWith(`${option} `) ? `${key}${message.slice(option.length)}` : message
  return new ConfigError(`${about} (${guilty.origin.where})`, {
    key,
    value: guilty.value,
    cause: error,
  })
}

export const applySettings = (host: OutboxHost, said: readonly Said[], extra: SettingsFromOutside): void => {
  try {
    host.configure({ ...extra, ...settingsFrom(said) })
  } catch (error) {
    throw blame(error, said)
  }
}

const CODE: Origin = { kind: 'code', where: 'createOutbox' }
const DEFAULT: Origin = { kind: 'default', where: '' }

const limitInCode = (key: string, policy: RetryPolicy | undefined): readonly ResolvedSetting[] =>
  policy === undefined ? [] : [{ key, value: policy.maxAttempts, origin: CODE }]

/** One value from outside replaces the policies of the code as a whole; of those only the limit can be told. */
const resolvedRetry = (host: OutboxHost, byKey: ReadonlyMap<string, Said>): readonly ResolvedSetting[] => {
  const settings = SETTINGS.filter(({ scope }) => scope === 'retry')
  const ours = settings.map((setting) => {
    const one = byKey.get(fullName(setting))
    const value = one?.value ?? EXPONENTIAL_DEFAULTS[setting.name as keyof typeof EXPONENTIAL_DEFAULTS]
    return { key: fullName(setting), value, origin: one?.origin ?? DEFAULT }
  })
  if (ours.some(({ origin }) => origin !== DEFAULT)) return ours
  const { retry, destinations = {} } = host.given
  const each = Object.entries(destinations).flatMap(([name, destination]) =>
    limitInCode(`destinations.${name}.retry.maxAttempts`, destination.retry),
  )
  return [...(retry === undefined ? ours : limitInCode('retry.maxAttempts', retry)), ...each]
}

/** Every setting of an outbox as it holds, with where it came from. */
export const resolvedSettings = (host: OutboxHost, said: readonly Said[]): readonly ResolvedSetting[] => {
  const byKey = new Map(said.map((one) => [keyOf(one), one]))
  const given = host.given as unknown as Readonly<Record<string, unknown>>
  const options = host.options as unknown as Readonly<Record<string, unknown>>
  const served = host.served().map((destination) => destination.name)
  // Their defaults follow from what is declared.
  const follows: Readonly<Record<string, unknown>> = {
    serve: served,
    maintain: host.options.maintain ?? served.length > 0,
  }
  const plain = SETTINGS.filter(({ scope }) => scope === 'outbox').map(({ name }) => ({
    key: name,
    value: follows[name] ?? options[name],
    origin: byKey.get(name)?.origin ?? (given[name] === undefined ? DEFAULT : CODE),
  }))
  const each = host.declared().flatMap((destination) =>
    SETTINGS.filter(({ scope }) => scope === 'destination').map((setting) => {
      const code = host.given.destinations?.[destination.name] as
        | Readonly<Record<string, unknown>>
        | undefined
      const one = byKey.get(keyOf({ setting, destination: destination.name })) ?? byKey.get(setting.name)
      return {
        key: `destinations.${destination.name}.${setting.name}`,
        value: (destination as unknown as Readonly<Record<string, unknown>>)[setting.name],
        origin: one?.origin ?? (code?.[setting.name] === undefined ? DEFAULT : CODE),
      }
    }),
  )
  return [...plain, ...resolvedRetry(host, byKey), ...each]
}
