/** Options of a command: read, checked, and refused in one sentence. */
import { type ParseArgsConfig, parseArgs } from 'node:util'

export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export type OptionSpec = NonNullable<ParseArgsConfig['options']>
export type OptionValues<Spec extends OptionSpec> = ReturnType<
  typeof parseArgs<{ options: Spec; strict: true; allowPositionals: false }>
>['values']

const parse = <Spec extends OptionSpec>(options: Spec): OptionValues<Spec> => {
  try {
    return parseArgs({ options, strict: true, allowPositionals: false }).values
  } catch (error) {
    // Node explains how to escape a positional; the first sentence is all that helps here.
    throw new UsageError((error as Error).message.split('. ')[0] ?? 'these options cannot be read')
  }
}

export const wholeNumber = /^\d{1,10}$/
export const decimal = /^\d+(\.\d+)?$/

export const numberOption = (
  name: string,
  text: string,
  low: number,
  high: number,
  pattern = wholeNumber,
): number => {
  const value = pattern.test(text) ? Number(text) : Number.NaN
  if (value >= low && value <= high) return value
  const kind = pattern === wholeNumber ? 'whole number' : 'number'
  throw new UsageError(`--${name} must be a ${kind} from ${low} to ${high}, not "${text}"`)
}

export const HIGHEST_SEED = 4_294_967_295

export const choiceOption = <T extends string>(name: string, text: string, choices: readonly T[]): T => {
  const choice = choices.find((each) => each === text)
  if (choice !== undefined) return choice
  throw new UsageError(`--${name} must be one of ${choices.join(', ')}, not "${text}"`)
}

/** What a shell reports for a program that SIGPIPE ended. */
const ENDED_WITH_READER = 141

/** From here on a reader that leaves early, as `head` does, ends the process quietly; 0 would be a verdict. */
export const endWithReader = (): void => {
  const end = (error: NodeJS.ErrnoException): void => {
    if (error.code !== 'EPIPE') throw error
    process.exit(ENDED_WITH_READER)
  }
  for (const stream of [process.stdout, process.stderr]) stream.on('error', end)
}

/** Of a command that can do one thing only. */
export const NO_OPTIONS = { help: { type: 'boolean', default: false } } as const

/** The exit code: that of `run`, 0 after the help, 2 after wrong use. */
export const runCommand = async <Spec extends OptionSpec & { readonly help: object }>(
  name: string,
  help: string,
  spec: Spec,
  run: (values: OptionValues<Spec>) => Promise<number>,
): Promise<number> => {
  endWithReader()
  try {
    const values = parse(spec)
    if ((values as { readonly help?: unknown }).help !== true) return await run(values)
    process.stdout.write(help)
    return 0
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    process.stderr.write(`${error.message}\nSee npm run ${name} -- --help\n`)
    return 2
  }
}
