/** Lets tests wait for what they are about instead of sleeping: a condition is looked at when something happened. */
export interface Bell {
  /** Something happened: everybody who waits looks again. */
  ring(): void
  /** Resolves as soon as the condition holds; at once if it does already. Rejects with what it throws. */
  until(condition: () => boolean | Promise<boolean>): Promise<void>
}

interface Waiter {
  look(): void
}

export const createBell = (): Bell => {
  const waiters = new Set<Waiter>()
  return {
    ring() {
      for (const waiter of [...waiters]) waiter.look()
    },
    until: (condition) =>
      new Promise<void>((resolve, reject) => {
        let looking = false
        let again = false
        const look = async (): Promise<void> => {
          // A condition may wait for the store itself; what happens meanwhile must not be missed.
          again = true
          if (looking) return
          looking = true
          try {
            while (again) {
              again = false
              if (!(await condition())) continue
              waiters.delete(waiter)
              resolve()
              return
            }
          } catch (error) {
            waiters.delete(waiter)
            reject(error)
          } finally {
            looking = false
          }
        }
        const waiter: Waiter = { look: () => void look() }
        waiters.add(waiter)
        waiter.look()
      }),
  }
}
