/**
 * What can be set from outside of the code: in a file, in the environment, by a flag. One table, from which reading,
 * checking, `posthaste config` and the documents take the names.
 */

/** `ms` and `hours` also take durations, under the name without the unit: `pollInterval: '5s'`. */
export type SettingKind = 'ms' | 'hours' | 'whole' | 'number' | 'boolean' | 'names' | 'text' | 'level'

/** Whom it is for: the outbox, its retry policy, its destinations, or the worker around it. */
export type SettingScope = 'outbox' | 'retry' | 'destination' | 'worker'

export interface Setting {
  readonly name: string
  readonly kind: SettingKind
  readonly scope: SettingScope
  /** Words that may stand for a value, the same in a file, a variable and a flag. */
  readonly words?: Readonly<Record<string, unknown>>
}

const of = (scope: SettingScope, kind: SettingKind, ...names: readonly string[]): readonly Setting[] =>
  names.map((name) => ({ name, kind, scope }))

export const SETTINGS: readonly Setting[] = [
  ...of('outbox', 'names', 'serve'),
  ...of('outbox', 'ms', 'pollIntervalMs', 'pollIdleMaxMs'),
  ...of('outbox', 'whole', 'pollBatchSize'),
  ...of('outbox', 'boolean', 'pollerEnabled', 'maintain', 'migrate'),
  ...of('outbox', 'ms', 'skipRecentMs', 'partitionWindowMs', 'sweepIntervalMs', 'laneLeaseMs', 'laneRenewMs'),
  ...of('outbox', 'whole', 'coldQueueCapacity', 'historyLimit'),
  ...of('outbox', 'ms', 'hardDeadlineMs', 'drainMs', 'pendingIntervalMs'),
  ...of('outbox', 'hours', 'retentionDoneHours'),
  { name: 'retentionDeadHours', kind: 'hours', scope: 'outbox', words: { never: null } },
  ...of('outbox', 'hours', 'retentionDedupHours'),
  ...of('outbox', 'ms', 'cleanupIntervalMs'),
  ...of('outbox', 'whole', 'cleanupBatchSize'),
  ...of('outbox', 'hours', 'partitionAheadHours'),
  ...of('outbox', 'ms', 'partitionIntervalMs'),
  ...of('destination', 'whole', 'concurrency', 'batchSize'),
  ...of('destination', 'number', 'ratePerSecond'),
  ...of('destination', 'ms', 'timeoutMs'),
  {
    name: 'maxAttempts',
    kind: 'whole',
    scope: 'retry',
    words: { never: Number.POSITIVE_INFINITY, Infinity: Number.POSITIVE_INFINITY },
  },
  ...of('retry', 'ms', 'baseMs', 'maxMs'),
  ...of('retry', 'number', 'multiplier'),
  { name: 'jitter', kind: 'number', scope: 'retry', words: { half: 'half', none: 'none' } },
  ...of('worker', 'whole', 'workers', 'healthPort'),
  ...of('worker', 'text', 'healthHost'),
  ...of('worker', 'level', 'logLevel'),
]

const UNIT = /(?:Ms|Hours)$/

/** Its names in a file: with the unit, and without for a duration. */
export const namesIn = ({ name, kind }: Setting): readonly string[] =>
  kind === 'ms' || kind === 'hours' ? [name, name.replace(UNIT, '')] : [name]

const upper = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()

/** Its names in the environment: `POSTHASTE_POLL_INTERVAL`, `POSTHASTE_POLL_INTERVAL_MS`. */
export const variablesOf = (setting: Setting): readonly string[] =>
  namesIn(setting)
    .map((name) => `POSTHASTE_${setting.scope === 'retry' ? 'RETRY_' : ''}${upper(name)}`)
    .reverse()

/** As it is written down the whole way: `retry.maxAttempts`. */
export const fullName = ({ name, scope }: Setting): string => (scope === 'retry' ? `retry.${name}` : name)
