/** Help that teaches: what there is, what one command is for, and how it is used. */
import { COMMON_FLAGS, type Command, type Flag, GROUPS } from './command.ts'
import { EXIT_MEANINGS } from './exit-codes.ts'
import type { Paint } from './terminal.ts'

const WIDTH = 92

const wrap = (text: string, indent: string, width = WIDTH): string => {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && indent.length + line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].map((one) => `${indent}${one}`).join('\n')
}

const entry = (left: string, right: string, column: number, painted: string): string => {
  const pad = ' '.repeat(Math.max(1, column - left.length))
  const [first = '', ...others] = wrap(right, '', WIDTH - column - 2).split('\n')
  const rest = others.map((line) => `\n${' '.repeat(column + 2)}${line}`).join('')
  return `  ${painted}${pad}${first}${rest}`
}

const flagText = ({ name, value, short }: Flag): string =>
  `${short === undefined ? '' : `-${short}, `}--${name}${value === undefined ? '' : ` ${value}`}`

const flagLines = (flags: readonly Flag[], paint: Paint): string =>
  flags.map((flag) => entry(flagText(flag), flag.about, 24, paint('cyan', flagText(flag)))).join('\n')

export const overview = (commands: readonly Command[], paint: Paint): string => {
  const groups = GROUPS.flatMap((group) => {
    const members = commands.filter((command) => command.group === group)
    const lines = members.map(({ name, summary }) => entry(name, summary, 16, paint('cyan', name)))
    return members.length === 0 ? [] : [`${paint('bold', group)}\n${lines.join('\n')}`]
  })
  const codes = EXIT_MEANINGS.map(([code, meaning]) => entry(String(code), meaning, 5, String(code)))
  return [
    `${paint('bold', 'posthaste')} runs, shows and repairs transactional outboxes.`,
    'Usage: posthaste COMMAND [OPTIONS]      posthaste help COMMAND explains one, with examples\n       posthaste --version',
    ...groups,
    `${paint('bold', 'Everywhere')}\n${flagLines(COMMON_FLAGS, paint)}`,
    `${paint('bold', 'Exit code')}\n${codes.join('\n')}`,
    `${paint('bold', 'A first look')}
  posthaste init                 asks a few questions and writes a configuration
  posthaste migrate              makes the tables
  posthaste worker               delivers, until Ctrl-C
  posthaste status --watch       shows what waits, fails and flows
  posthaste why ID               says in words why an event has not arrived`,
    '',
  ].join('\n\n')
}

/** Those that begin with the same word, such as the others of `dead`. */
const siblingsOf = ({ name }: Command, commands: readonly Command[]): readonly string[] => {
  const [first] = name.split(' ')
  return commands
    .filter((other) => other.name !== name && other.name.split(' ')[0] === first)
    .map((other) => `posthaste ${other.name}`)
}

export const commandHelp = (command: Command, commands: readonly Command[], paint: Paint): string => {
  const { name, aliases = [], operands, about, flags, examples } = command
  const siblings = siblingsOf(command, commands)
  const usage = ['posthaste', name, operands, '[OPTIONS]'].filter((part) => part !== '').join(' ')
  const others =
    aliases.length === 0 ? '' : `\nAlso: ${aliases.map((alias) => `posthaste ${alias}`).join(', ')}`
  return [
    `${paint('bold', `posthaste ${name}`)}: ${command.summary}`,
    `Usage: ${usage}${others}`,
    ...(siblings.length === 0 ? [] : [wrap(`See also: ${siblings.join(', ')}`, '')]),
    ...about.map((paragraph) => wrap(paragraph, '')),
    ...(flags.length === 0 ? [] : [`${paint('bold', 'Options')}\n${flagLines(flags, paint)}`]),
    `${paint('bold', 'Everywhere')}\n${flagLines(COMMON_FLAGS, paint)}`,
    `${paint('bold', 'Examples')}\n${examples
      .map(([line, what]) => `  ${paint('cyan', line)}\n      ${what}`)
      .join('\n')}`,
    '',
  ].join('\n\n')
}
