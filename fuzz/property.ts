/**
 * A property: values of all kinds are given to one part of the library, which must either accept them, and then what
 * comes out is what went in, or refuse them with an error of ours. Nothing else may happen: no other error, no
 * rejection that nobody hears, no hang, and nothing that changes the prototypes of everybody.
 */
import fc from 'fast-check'
import { ERROR_CODES, OutboxError } from '../src/index.ts'
import { follow } from './values.ts'

export type Outcome = 'accepted' | 'refused'

/** What a property is checked on, made once for all of its values. */
export interface Subject<T> extends AsyncDisposable {
  readonly values: fc.Arbitrary<T>
  /** Throws when what was accepted is not what comes out. */
  check(value: T): Outcome | Promise<Outcome>
}

export interface Property {
  readonly name: string
  /** Of the runs that were asked for; what goes to a database takes longer. */
  readonly share: number
  open(): Promise<Subject<never>>
}

/** The type of the values is nobody's business but the property's own. */
export const property = <T>(name: string, share: number, open: () => Promise<Subject<T>>): Property => ({
  name,
  share,
  open: open as unknown as Property['open'],
})

/** A subject that needs nothing. */
export const pure = <T>(
  name: string,
  values: fc.Arbitrary<T>,
  check: (value: T) => Outcome | Promise<Outcome>,
): Property =>
  property(name, 1, async () => ({ values, check, [Symbol.asyncDispose]: async () => undefined }))

export interface Counts {
  readonly property: string
  readonly runs: number
  readonly accepted: number
  readonly refused: number
  readonly seconds: number
  /** Null when it holds; else the seed, the smallest value found, and what went wrong. */
  readonly failure: string | null
}

const CODES: ReadonlySet<string> = new Set(Object.values(ERROR_CODES))
const HANGS_AFTER_MS = 20_000

/** True for a refusal that tells what is wrong; anything else that was thrown is a failure of the property. */
export const isRefusal = (error: unknown): boolean => {
  if (!(error instanceof OutboxError)) throw new Error('threw what is no error of ours', { cause: error })
  if (!CODES.has(error.code)) throw new Error(`has the unknown code ${error.code}`, { cause: error })
  const { message } = error
  if (message.length < 12 || message.length > 2_000 || message.includes('[object '))
    throw new Error(`has a message that helps nobody: ${JSON.stringify(message.slice(0, 200))}`)
  return true
}

/** Runs it; a refusal is an outcome. `verify` looks at what was accepted. */
export const outcomeOf = async <T>(
  act: () => T | Promise<T>,
  verify: (result: T) => void | Promise<void> = () => undefined,
): Promise<Outcome> => {
  let result: T
  try {
    result = await act()
  } catch (error) {
    isRefusal(error)
    return 'refused'
  }
  await verify(result)
  return 'accepted'
}

const PROTOTYPES = [Object, Array, Function, String, Number, Map, Uint8Array].map(
  ({ prototype }) => prototype,
)

const prototypesNow = (): string =>
  PROTOTYPES.map((prototype) => Reflect.ownKeys(prototype).map(String).join()).join(';')

const withinTime = async <T>(work: T | Promise<T>): Promise<T> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`took longer than ${HANGS_AFTER_MS} ms`)), HANGS_AFTER_MS)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

const causeOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const cause = error.cause === undefined ? '' : `; because of ${causeOf(error.cause)}`
  return `${error.message.slice(0, 600)}${cause}`
}

export const checkProperty = async (
  { name, share, open }: Property,
  { runs, seed }: { readonly runs: number; readonly seed: number },
): Promise<Counts> => {
  await using subject = await open()
  const counts = { accepted: 0, refused: 0 }
  const unheard: unknown[] = []
  const hear = (reason: unknown): void => void unheard.push(reason)
  process.on('unhandledRejection', hear)
  const before = prototypesNow()
  const began = performance.now()
  const result = await fc.check(
    fc.asyncProperty(subject.values, async (value) => {
      const outcome = await withinTime(subject.check(follow(value) as never))
      counts[outcome] += 1
      if (prototypesNow() !== before) throw new Error('changed a prototype that everybody shares')
      // Rejections are reported between two turns of the event loop.
      if (unheard.length > 0) throw new Error('left a rejection that nobody hears', { cause: unheard[0] })
    }),
    { numRuns: Math.max(1, Math.ceil(runs * share)), seed },
  )
  await new Promise((resolve) => setImmediate(resolve))
  process.off('unhandledRejection', hear)
  const late = unheard.length > 0 ? `a rejection that nobody hears: ${causeOf(unheard[0])}` : null
  const failure = result.failed
    ? `seed ${result.seed}, path ${result.counterexamplePath}: ${fc.stringify(result.counterexample)}: ${causeOf(result.errorInstance)}`
    : late
  return {
    property: name,
    runs: result.numRuns,
    ...counts,
    seconds: Number(((performance.now() - began) / 1_000).toFixed(2)),
    failure,
  }
}
