/** The last thing that publishers are asked for. One that does not answer must not keep the process from ending. */
import type { ResolvedDestination } from './options.ts'
import { pauseFor } from './progress.ts'
import type { Logger, Runtime } from './spi/index.ts'

const CLOSE_MS = 10_000

export const closePublishers = async (
  destinations: Iterable<ResolvedDestination>,
  runtime: Runtime,
  logger: Logger,
): Promise<void> => {
  const close = async ({ name, to }: ResolvedDestination): Promise<void> => {
    if (to?.close === undefined) return
    const closed = new AbortController()
    const late = pauseFor(runtime, CLOSE_MS, closed.signal).then(() => {
      if (closed.signal.aborted) return
      logger.log('warn', 'a publisher did not close in time; it is left behind', {
        destination: name,
        afterMs: CLOSE_MS,
      })
    })
    const closing = (async () => to.close?.())().catch((error: unknown) =>
      logger.log('warn', 'a publisher could not be closed', { destination: name, error: String(error) }),
    )
    await Promise.race([closing.finally(() => closed.abort()), late])
  }
  await Promise.all([...destinations].map(close))
}
