/**
 * One writer at a time per database file and process, first come first served. SQLite itself would let the
 * second one wait inside a synchronous call, which stops the event loop that the first one needs to finish.
 *
 * The registry is on globalThis: an application can load the ESM and the CommonJS build of this package side
 * by side, and both must queue at the same door.
 */
import type { Runtime } from '../../core/spi/index.ts'

export type Release = () => void

interface Waiter {
  grant(): void
}

export class WriteMutex {
  #held = false
  readonly #waiters: Waiter[] = []

  get held(): boolean {
    return this.#held
  }

  /** Null when the wait took longer than `timeoutMs`. */
  acquire(timeoutMs: number, runtime: Pick<Runtime, 'schedule'>): Promise<Release | null> {
    if (!this.#held) {
      this.#held = true
      return Promise.resolve(this.#releaseOnce())
    }
    return new Promise((resolve) => {
      const waiter: Waiter = {
        grant: () => {
          cancel()
          resolve(this.#releaseOnce())
        },
      }
      const cancel = runtime.schedule(timeoutMs, () => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1)
        resolve(null)
      })
      this.#waiters.push(waiter)
    })
  }

  #releaseOnce(): Release {
    let released = false
    return () => {
      if (released) return
      released = true
      const next = this.#waiters.shift()
      // The door is handed over while it is shut, so nobody can slip in between.
      if (next === undefined) this.#held = false
      else next.grant()
    }
  }
}

interface SharedMutex {
  readonly mutex: WriteMutex
  users: number
}

interface Registry {
  readonly byPath: Map<string, SharedMutex>
  readonly byHandle: WeakMap<object, WriteMutex>
}

const REGISTRY = Symbol.for('posthaste.sqlite.write-mutexes')

const registry = (): Registry => {
  const holder = globalThis as { [REGISTRY]?: Registry }
  holder[REGISTRY] ??= { byPath: new Map(), byHandle: new WeakMap() }
  return holder[REGISTRY]
}

/** The mutex of a file, by its real path; `dispose` forgets it when nobody uses the file any more. */
export const mutexOfPath = (path: string): { readonly mutex: WriteMutex; readonly dispose: () => void } => {
  const { byPath } = registry()
  const shared = byPath.get(path) ?? { mutex: new WriteMutex(), users: 0 }
  byPath.set(path, shared)
  shared.users += 1
  let disposed = false
  return {
    mutex: shared.mutex,
    dispose: () => {
      if (disposed) return
      disposed = true
      shared.users -= 1
      if (shared.users === 0) byPath.delete(path)
    },
  }
}

/** For a database that only its handle can reach. */
export const mutexOfHandle = (handle: object): WriteMutex => {
  const { byHandle } = registry()
  const mutex = byHandle.get(handle) ?? new WriteMutex()
  byHandle.set(handle, mutex)
  return mutex
}
