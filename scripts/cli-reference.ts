/** The reference part of docs/cli.md, from the table of commands; `npm run generate` writes it into the page. */
import { COMMON_FLAGS, type Command, type Flag, GROUPS } from '../src/cli/command.ts'
import { COMMANDS } from '../src/cli/commands/index.ts'
import { EXIT_MEANINGS } from '../src/cli/exit-codes.ts'
import { fullName, SETTINGS, variablesOf } from '../src/config/setting-table.ts'

const cell = (text: string): string => text.replaceAll('|', '\\|')

const flagRows = (flags: readonly Flag[]): readonly string[] => [
  '| option | meaning |',
  '| --- | --- |',
  ...flags.map(
    ({ name, value, about }) =>
      `| \`--${name}${value === undefined ? '' : ` ${cell(value)}`}\` | ${cell(about)} |`,
  ),
]

const section = ({ name, aliases = [], operands, summary, about, flags, examples }: Command): string =>
  [
    `### posthaste ${name}`,
    `${summary[0]?.toUpperCase()}${summary.slice(1)}.`,
    ...about,
    ...(aliases.length === 0
      ? []
      : [`Also: ${aliases.map((alias) => `\`posthaste ${alias}\``).join(', ')}.`]),
    ...(operands === '' ? [] : [`Takes \`${operands}\`.`]),
    ...(flags.length === 0 ? [] : [flagRows(flags).join('\n')]),
    ['```sh', ...examples.map(([line, what]) => `${line}    # ${what}`), '```'].join('\n'),
  ].join('\n\n')

export const cliReference = (): string =>
  [
    '## Exit codes',
    [
      '| code | meaning |',
      '| --- | --- |',
      ...EXIT_MEANINGS.map(([code, meaning]) => `| ${code} | ${meaning} |`),
    ].join('\n'),
    '## Options everywhere',
    flagRows(COMMON_FLAGS).join('\n'),
    ...GROUPS.flatMap((group) => [
      `## ${group}`,
      ...COMMANDS.filter((command) => command.group === group).map(section),
    ]),
  ].join('\n\n')

const KINDS: Readonly<Record<string, string>> = {
  ms: 'duration',
  hours: 'duration, whole hours',
  whole: 'whole number',
  number: 'number',
  boolean: 'true or false',
  names: 'names',
  text: 'text',
  level: 'debug, info, warn, error, silent',
}

/** The table of docs/configuration.md. */
export const settingsReference = (): string =>
  [
    '| setting | in | kind | variable |',
    '| --- | --- | --- | --- |',
    ...SETTINGS.map((setting) => {
      const place = {
        outbox: '`outbox`',
        retry: '`outbox.retry`',
        destination: '`outbox`, `outbox.destinations.NAME`',
        worker: '`worker`',
      }
      return `| \`${fullName(setting)}\` | ${place[setting.scope]} | ${[KINDS[setting.kind], ...Object.keys(setting.words ?? {})].join(', or ')} | \`${variablesOf(setting)[0]}\` |`
    }),
  ].join('\n')
