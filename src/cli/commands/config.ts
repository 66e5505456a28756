import type { ResolvedSetting } from '../../config/apply.ts'
import type { LoadedOutbox } from '../../config/load-config.ts'
import { maskAddress, maskSecrets } from '../../core/model/mask-secrets.ts'
import { placeOf } from '../../core/model/store-place.ts'
import type { Command } from '../command.ts'
import { clean } from '../text.ts'

const originText = ({ origin }: ResolvedSetting): string => {
  if (origin.kind === 'default') return 'default'
  return origin.kind === 'code' ? 'code (createOutbox)' : `${origin.kind}: ${origin.where}`
}

const valueText = ({ value }: ResolvedSetting): string => {
  if (value === null || value === undefined) return 'none'
  return Array.isArray(value) ? value.join(', ') || 'none' : String(value)
}

interface Meant {
  readonly url: string
  readonly from: string
}

/** Which database it is: by its address, or by what the store that the code made says of itself. */
const databaseOf = ({ url, host }: LoadedOutbox): Meant | null => {
  if (url !== null) return { url: maskSecrets(maskAddress(url.value)), from: url.from }
  const place = placeOf(host.store)
  return place === null ? null : { url: place, from: 'code (createOutbox)' }
}

const plain = ({ key, value, origin }: ResolvedSetting): Readonly<Record<string, unknown>> => ({
  key,
  // JSON has no word for it; null would be "none".
  value:
    value === Number.POSITIVE_INFINITY
      ? 'Infinity'
      : typeof value === 'string'
        ? maskSecrets(value)
        : (value ?? null),
  from: origin.kind,
  ...(origin.where === '' ? {} : { where: origin.where }),
})

export const config: Command = {
  name: 'config',
  group: 'Set up',
  summary: 'the settings that hold, and where each of them came from',
  operands: '',
  counts: [0, 0],
  about: [
    'Later places win: the default, the code (createOutbox), the file, the environment (POSTHASTE_…), flags (--set). ' +
      'Passwords are masked. Nothing is connected, so this also works while the database is away.',
    'Without --all only what somebody said is shown. What posthaste tune has set is in the database: posthaste tune DESTINATION shows it.',
  ],
  flags: [{ name: 'all', about: 'also what is at its default' }],
  examples: [
    ['posthaste config', 'what was said, and by whom'],
    ['POSTHASTE_POLL_INTERVAL=5s posthaste config --json', 'for programs, everything'],
  ],
  async run(session) {
    const loaded = await session.load({ under: () => ({}) })
    const shown = (settings: readonly ResolvedSetting[]): readonly ResolvedSetting[] =>
      session.isOn('all') ? settings : settings.filter(({ origin }) => origin.kind !== 'default')
    const print = (title: string, settings: readonly ResolvedSetting[]): void => {
      session.say(session.paint('bold', title))
      if (settings.length === 0) session.say('  everything is at its default')
      else
        session.table(settings, [
          { title: 'setting', text: ({ key }) => `  ${key}` },
          { title: 'value', text: valueText, colour: () => 'cyan' },
          { title: 'from', text: originText },
        ])
      session.say()
    }
    session.say(`file      ${clean(loaded.file ?? 'none')}`)
    if (!loaded.enabled) session.say('enabled   no: by subscription or enableOutbox')
    session.say()
    for (const one of loaded.outboxes) {
      const { name, host, settings, processors } = one
      const database = databaseOf(one)
      print(`outbox ${name} (${host.store.name})`, shown(settings))
      if (database !== null) session.say(`  database    ${clean(database.url)}  from ${clean(database.from)}`)
      for (const processor of processors) session.say(`  processor   ${clean(processor)}`)
      session.say()
    }
    print('worker', shown(loaded.workerSettings))
    for (const variable of loaded.unknownVariables)
      session.note(`${session.paint('yellow', 'note:')} ${clean(variable)} means nothing here`)
    return {
      json: {
        file: loaded.file,
        enabled: loaded.enabled,
        outboxes: loaded.outboxes.map((one) => ({
          name: one.name,
          store: one.host.store.name,
          database: databaseOf(one),
          processors: one.processors,
          settings: one.settings.map(plain),
        })),
        worker: loaded.workerSettings.map(plain),
        unknownVariables: loaded.unknownVariables,
      },
    }
  },
}
