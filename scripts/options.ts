/** Options of the commands that people start: read in one way, and refused in one sentence. */
import { type ParseArgsConfig, parseArgs } from 'node:util'

/** The user asked for something that there is not. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

type Spec = NonNullable<ParseArgsConfig['options']>

type Values<T extends Spec> = ReturnType<
  typeof parseArgs<ParseArgsConfig & { options: T; strict: true }>
>['values']

export const readOptions = <const T extends Spec>(options: T): Values<T> => {
  try {
    return parseArgs({ options, strict: true, allowPositionals: false }).values as Values<T>
  } catch (error) {
    // Node explains how to escape a positional; the first sentence is all that helps here.
    throw new UsageError((error as Error).message.split('. ')[0] ?? 'these options cannot be read')
  }
}

export const wholeNumber = (name: string, text: string, low: number, high: number): number => {
  const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN
  if (value >= low && value <= high) return value
  throw new UsageError(`--${name} must be a whole number from ${low} to ${high}, not "${text}"`)
}

export const numberOf = (name: string, text: string, low: number, high: number): number => {
  const value = /^\d{1,10}(\.\d{1,10})?$/.test(text) ? Number(text) : Number.NaN
  if (value >= low && value <= high) return value
  throw new UsageError(`--${name} must be a number from ${low} to ${high}, not "${text}"`)
}

/** The exit code of a command; wrong use is said in one sentence, and is 2. */
export const runCommand = async (command: string, run: () => Promise<number>): Promise<number> => {
  try {
    return await run()
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    process.stderr.write(`${error.message}\nSee npm run ${command} -- --help\n`)
    return 2
  }
}
