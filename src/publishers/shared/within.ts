/** Tells somebody, once, that there is nothing to wait for any more; gives what ends the telling. */
export type Loss = (listener: () => void) => () => void

/** Resolves with the work, or rejects when the signal is aborted or the connection is lost before. */
export const within = async <T>(work: Promise<T>, signal: AbortSignal, onLost?: Loss): Promise<T> => {
  const ends: (() => void)[] = []
  const ended = new Promise<never>((_, reject) => {
    const stop = (): void => reject(signal.reason as Error)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
    ends.push(() => signal.removeEventListener('abort', stop))
    if (onLost !== undefined) ends.push(onLost(() => reject(new Error('the connection was lost'))))
  })
  // Whoever loses the race has nobody waiting for it any more.
  work.catch(() => undefined)
  try {
    return await Promise.race([work, ended])
  } finally {
    for (const end of ends) end()
  }
}
