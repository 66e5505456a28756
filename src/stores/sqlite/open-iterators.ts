/**
 * The iterators of a transaction that are not finished. While one of better-sqlite3 is open its connection refuses
 * COMMIT and ROLLBACK alike, so they are closed before either; whoever goes on with one later is told.
 */
type AnyIterator = Iterator<unknown> & object

type AnyFunction = (...args: unknown[]) => unknown

const isOver = (result: unknown): boolean => (result as { readonly done?: unknown } | null)?.done === true

export class OpenIterators {
  readonly #owners = new Map<AnyIterator, object>()

  /** `use` makes a call, or throws when the iterator must not go on. */
  guard(iterator: AnyIterator, owner: object, use: (call: () => unknown) => unknown): object {
    this.#owners.set(iterator, owner)
    const proxy: object = new Proxy(iterator, {
      get: (target, property) => {
        const value: unknown = Reflect.get(target, property, target)
        if (typeof value !== 'function') return value
        return (...args: unknown[]) => {
          const call = (): unknown => (value as AnyFunction).apply(target, args)
          // A loop that is left after the end still closes its iterator, which changes nothing.
          const result = property === 'return' ? call() : use(call)
          if (property === 'return' || (property === 'next' && isOver(result))) this.#owners.delete(target)
          return result === target ? proxy : result
        }
      },
    })
    return proxy
  }

  /** Those of one owner, or all. */
  close(owner: object | null = null): void {
    for (const [iterator, its] of this.#owners) {
      if (owner !== null && its !== owner) continue
      this.#owners.delete(iterator)
      try {
        iterator.return?.()
      } catch {
        // If it is open nevertheless, the statement that comes next is refused, and says so.
      }
    }
  }
}
