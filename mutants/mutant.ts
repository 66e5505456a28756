/** A mutant: one deliberate defect, such as a tired engineer could make, and who is expected to notice it. */

/** The simulator, or a file of tests by its path, be it only those of a title. */
export type Hunter = 'simulator' | `${string}.test.ts` | `${string}.test.ts > ${string}`

export interface Mutant {
  readonly name: string
  /** From the root of the repository. */
  readonly file: string
  /** Occurs exactly once in the file, so that a catalogue that no longer fits the code is noticed. */
  readonly find: string
  readonly replace: string
  /** Which guarantee goes with it. */
  readonly breaks: string
  /** The likeliest first: the others run only when it noticed nothing. */
  readonly hunters: readonly Hunter[]
}

/** The text of the file with the defect in it. */
export const mutate = (text: string, { name, file, find, replace }: Mutant): string => {
  const [before, after, ...more] = text.split(find)
  if (before === undefined || after === undefined) throw new Error(`${name}: ${file} has no ${find}`)
  if (more.length > 0) throw new Error(`${name}: ${file} has ${find} more than once`)
  return before + replace + after
}
