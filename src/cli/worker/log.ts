/** JSON lines on standard error: what a worker says, whoever collects it. Secrets are masked on the way. */
import type { WorkerSettings } from '../../config/load-config.ts'
import { createJsonLogger, SILENT_LOGGER } from '../../core/runtime/logger.ts'
import type { Logger } from '../../core/spi/index.ts'

export const workerLogger = (
  level: WorkerSettings['logLevel'],
  fields: Readonly<Record<string, unknown>> = {},
): Logger => {
  if (level === 'silent') return SILENT_LOGGER
  const inner = createJsonLogger({
    level,
    wallNow: () => Date.now(),
    write: (line) => process.stderr.write(`${line}\n`),
  })
  return { ...inner, log: (at, message, more) => inner.log(at, message, { ...fields, ...more }) }
}
