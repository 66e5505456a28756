/** From arguments to a command with its flags; what is not understood is said with what was probably meant. */
import { parseArgs } from 'node:util'
import { hintFor } from '../core/model/unknown-names.ts'
import { COMMON_FLAGS, type Command, type Flag } from './command.ts'

export class UsageError extends Error {
  /** The command whose help explains more; null for the overview. */
  readonly command: string | null
  constructor(message: string, command: string | null = null) {
    super(message)
    this.command = command
  }
}

export type Values = Readonly<Record<string, string | boolean | readonly string[] | undefined>>

export interface Parsed {
  readonly command: Command
  readonly values: Values
  readonly operands: readonly string[]
}

const namesOf = ({ name, aliases = [] }: Command): readonly string[] => [name, ...aliases]

export const findCommand = (
  words: readonly string[],
  commands: readonly Command[],
): { readonly command: Command; readonly used: number } | null => {
  for (const used of [2, 1]) {
    if (words.length < used) continue
    const name = words.slice(0, used).join(' ')
    const command = commands.find((one) => namesOf(one).includes(name))
    // `dead` alone means `dead list`; a second word that is none of its family is a slip, not an operand.
    const isFamily = command !== undefined && used === 1 && command.name.startsWith(`${name} `)
    if (isFamily && words[1] !== undefined && !words[1].startsWith('-')) return null
    if (command !== undefined) return { command, used }
  }
  return null
}

/** `; did you mean …?`, for two words as for one. */
export const unknownCommand = (said: readonly string[], commands: readonly Command[]): UsageError => {
  const flag = said.findIndex((word) => word.startsWith('-'))
  const words = flag < 0 ? said : said.slice(0, flag)
  if (words.length === 0) return new UsageError('name a command')
  const names = commands.flatMap(namesOf)
  const family = names.filter((name) => name.startsWith(`${words[0]} `))
  if (family.length > 0) {
    const second = words[1] === undefined ? '' : ` "${words[1]}"`
    return new UsageError(`${words[0]} does not know${second}; there are: ${family.join(', ')}`)
  }
  const whole = names.filter((name) => name.endsWith(` ${words[0]}`))
  if (whole.length > 0)
    return new UsageError(`there is no command "${words[0]}"; did you mean "${whole.join('" or "')}"?`)
  const both = words.slice(0, 2).join(' ')
  const one = hintFor(words[0] ?? '', new Set(names))
  const hint = one.includes('did you mean') ? one : hintFor(both, new Set(names))
  const text = `there is no command "${hint.includes('did you mean') && one === hint ? words[0] : both}"`
  return new UsageError(hint.includes('did you mean') ? text + hint : text)
}

const specOf = (flags: readonly Flag[]) =>
  Object.fromEntries(
    flags.flatMap(({ name, value, short, many, aliases = [] }) =>
      [name, ...aliases].map((one) => [
        one,
        {
          type: value === undefined ? ('boolean' as const) : ('string' as const),
          ...(short !== undefined && one === name ? { short } : {}),
          ...(many === true ? { multiple: true } : {}),
        },
      ]),
    ),
  )

const explain = (error: unknown, flags: readonly Flag[], command: string): UsageError => {
  const { message, code } = error as { readonly message: string; readonly code?: string }
  const unknown = /Unknown option '(-{1,2}[^']+)'/.exec(message)?.[1]
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION' && unknown !== undefined) {
    const names = new Set(flags.map(({ name }) => `--${name}`))
    return new UsageError(`${command} does not know the flag ${unknown}${hintFor(unknown, names)}`, command)
  }
  // The value begins with a dash, and might be another flag.
  const ambiguous = /^Option '(?:-\w, )?(--[^ ']+)[^']*' argument is ambiguous/.exec(message)?.[1]
  if (ambiguous !== undefined)
    return new UsageError(
      `${ambiguous} needs a value; one that begins with - is written ${ambiguous}=-…`,
      command,
    )
  return new UsageError((message.split(/\. |\n/)[0] ?? message).trim(), command)
}

/** Flags may stand before the command too; the words that name it are those without a dash. */
export const parse = (args: readonly string[], commands: readonly Command[]): Parsed => {
  const words: string[] = []
  const rest: string[] = []
  const withValue = new Set(
    COMMON_FLAGS.flatMap(({ name, value, aliases = [] }) => (value === undefined ? [] : [name, ...aliases])),
  )
  for (let index = 0; index < args.length; index += 1) {
    const word = args[index] as string
    if (words.length > 0) break
    rest.push(word)
    if (!word.startsWith('-')) {
      rest.pop()
      words.push(...args.slice(index))
    } else if (withValue.has(word.replace(/^--/, '')) && args[index + 1] !== undefined) {
      index += 1
      rest.push(args[index] as string)
    }
  }
  const found = findCommand(words, commands)
  if (found === null) throw unknownCommand(words, commands)
  const { command, used } = found
  const flags = [...command.flags, ...COMMON_FLAGS]
  try {
    const { values, positionals, tokens } = parseArgs({
      args: [...rest, ...words.slice(used)],
      options: specOf(flags),
      strict: true,
      allowPositionals: true,
      tokens: true,
    })
    const aliased = new Map(
      flags.flatMap(({ name, aliases = [] }) => aliases.map((alias) => [alias, name] as const)),
    )
    const said = tokens.flatMap((token) =>
      token.kind === 'option' ? [aliased.get(token.name) ?? token.name] : [],
    )
    // The last one would win without a word, and an act would be about something else than was said.
    const twice = flags.find(
      ({ name, value, many }) =>
        value !== undefined && many !== true && said.indexOf(name) !== said.lastIndexOf(name),
    )
    if (twice !== undefined) throw new UsageError(`--${twice.name} is given twice`, command.name)
    const named = Object.entries(values).map(([name, value]) => [aliased.get(name) ?? name, value] as const)
    return { command, values: Object.fromEntries(named) as Values, operands: positionals }
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw explain(error, flags, command.name)
  }
}

export const checkOperands = ({ command, operands }: Parsed): void => {
  const [least, most] = command.counts
  if (operands.length < least) throw new UsageError(`${command.name} needs ${command.operands}`, command.name)
  if (operands.length > most) {
    const extra = operands[most] ?? ''
    throw new UsageError(`${command.name} does not know what to do with "${extra}"`, command.name)
  }
}
