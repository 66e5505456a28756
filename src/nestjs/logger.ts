/** The outbox speaks through Nest's logger, unless it is given another one. */
import { Logger as NestLogger } from '@nestjs/common'
import type { Logger } from '../core/spi/index.ts'
import { DEFAULT_NAME } from './tokens.ts'

const METHODS = { debug: 'debug', info: 'log', warn: 'warn', error: 'error' } as const

export const nestLogger = (name: string): Logger => {
  const logger = new NestLogger(name === DEFAULT_NAME ? 'Outbox' : `Outbox ${name}`)
  return {
    log(level, message, fields = {}) {
      const facts = Object.entries(fields).map(([field, value]) => `${field}=${String(value)}`)
      logger[METHODS[level]]([message, ...facts].join(' '))
    },
  }
}
