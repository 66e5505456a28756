/**
 * Ports are always the same, so that a URL can be kept, unless somebody else listens there: then a service moves by
 * hundreds. Preferred ports differ in their last two digits, so services never meet each other.
 */
import { createServer } from 'node:net'
import { ServicesError } from './service.ts'

const STEP = 100
/** Systems hand out ports above this one for outgoing connections. */
const HIGHEST = 32_767

export const portCandidates = (preferred: number, remembered?: number): number[] => {
  const steps = Math.floor((HIGHEST - preferred) / STEP) + 1
  const all = Array.from({ length: steps }, (_, step) => preferred + step * STEP)
  return remembered === undefined ? all : [remembered, ...all.filter((port) => port !== remembered)]
}

export const isFree = async (port: number): Promise<boolean> =>
  await new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)))
  })

export const allFree = async (first: number, count: number): Promise<boolean> => {
  for (let port = first; port < first + count; port++) if (!(await isFree(port))) return false
  return true
}

/** `others`: ports that belong to our other services, whether or not they run now. */
export const choosePort = async (
  preferred: number,
  remembered: number | undefined,
  others: ReadonlySet<number>,
  free: (port: number) => Promise<boolean> = isFree,
): Promise<number> => {
  for (const port of portCandidates(preferred, remembered))
    if (!others.has(port) && (await free(port))) return port
  throw new ServicesError(`No free port on 127.0.0.1: tried ${preferred} and every ${STEP} up to ${HIGHEST}.`)
}
