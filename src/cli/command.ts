/** What a command is: one file in commands/, listed in commands/index.ts. Help and docs/cli.md are made from it. */
import type { Session } from './session.ts'

export interface Flag {
  readonly name: string
  /** What stands for its value in the help; without it the flag is on or off. */
  readonly value?: string
  readonly about: string
  readonly short?: string
  /** May be given several times. */
  readonly many?: true
  /** Other names, which the help does not repeat. */
  readonly aliases?: readonly string[]
}

export const GROUPS = ['Set up', 'Run', 'Look', 'Repair', 'Learn'] as const

export interface Result {
  readonly exitCode?: number
  /** The object that --json prints as its last line. */
  readonly json: Readonly<Record<string, unknown>>
}

export interface Command {
  /** One or two words: `status`, `dead redrive`. */
  readonly name: string
  readonly aliases?: readonly string[]
  readonly group: (typeof GROUPS)[number]
  readonly summary: string
  /** What comes behind the name, such as `ID…`; nothing when empty. */
  readonly operands: string
  /** How many operands it takes. */
  readonly counts: readonly [number, number]
  /** Paragraphs that teach what it is for. */
  readonly about: readonly string[]
  readonly flags: readonly Flag[]
  readonly examples: readonly (readonly [string, string])[]
  run(session: Session): Promise<Result>
}

/** Flags that every command has. */
export const COMMON_FLAGS: readonly Flag[] = [
  {
    name: 'config',
    value: 'FILE',
    about: 'the configuration; default posthaste.config.ts, .js, .mjs, .json or .toml here',
  },
  { name: 'outbox', value: 'NAME', about: 'one of the outboxes in it; default all, or the only one' },
  {
    name: 'url',
    value: 'URL',
    about: 'a database instead of a configuration: postgres://…, mysql://…, sqlite:FILE',
    aliases: ['dsn'],
  },
  { name: 'schema', value: 'NAME', about: 'with --url: schema of the tables (PostgreSQL)' },
  { name: 'prefix', value: 'TEXT', about: 'with --url: how the names of the tables begin' },
  { name: 'table', value: 'NAME', about: 'with --url: the same without the final underscore' },
  {
    name: 'set',
    value: 'KEY=VALUE',
    about:
      'a setting, on top of file and environment: pollInterval=5s, mailer.concurrency=2, retry.maxAttempts=3 … (config --all lists them)',
    many: true,
  },
  { name: 'json', about: 'one JSON object as the last line of standard output' },
  { name: 'no-color', about: 'no colours; also by NO_COLOR=1, and when the output is no terminal' },
  { name: 'help', short: 'h', about: 'this text' },
]
