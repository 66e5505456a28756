/**
 * A constructor whose objects look like literals, for what applications see: some libraries refuse instances of classes.
 * Why it is no literal: see "Memory" in ARCHITECTURE.md.
 */
export const plain = <Args extends unknown[], T extends object>(
  fill: (this: { -readonly [Name in keyof T]: T[Name] }, ...args: Args) => void,
): (new (
  ...args: Args
) => T) => {
  fill.prototype = Object.prototype
  return fill as unknown as new (
    ...args: Args
  ) => T
}
