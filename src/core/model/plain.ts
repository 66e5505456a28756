/**
 * A constructor whose objects look like literals, for what there are thousands of: see "Memory" in ARCHITECTURE.md. No class,
 * because publishers see some of them, and there are libraries that refuse instances of classes.
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
