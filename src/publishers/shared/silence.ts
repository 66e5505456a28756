/** For clients that wait for an answer as long as there is a connection, although nobody may be at its other end any more. */

/**
 * What the work gives, or null when nothing was heard for so long. `heard` begins the time anew: a large batch on a slow
 * line is no silence as long as answers come.
 */
export const unlessSilent = async <T>(
  limitMs: number,
  work: (heard: () => void) => Promise<T>,
): Promise<T | null> => {
  let timer: NodeJS.Timeout | undefined
  const silence = new Promise<null>((resolve) => {
    timer = setTimeout(resolve, limitMs, null)
  })
  try {
    return await Promise.race([work(() => timer?.refresh()), silence])
  } finally {
    clearTimeout(timer)
  }
}
