/** What the exit code of `posthaste` says; docs/cli.md lists the same. */
import { ERROR_CODES } from '../core/errors.ts'

export const EXIT = {
  ok: 0,
  /** It ran, and what it found or did is not well. */
  failed: 1,
  usage: 2,
  config: 3,
  database: 4,
  notFound: 5,
  conflict: 6,
  /** 128 + SIGINT: stopped by hand, at a point where nothing is half done. */
  interrupted: 130,
  /** 128 + SIGPIPE: whoever read the output left early. */
  pipe: 141,
} as const

export const EXIT_MEANINGS: readonly (readonly [number, string])[] = [
  [EXIT.ok, 'done'],
  [EXIT.failed, 'it ran, and something is not well: a check failed, a process crashed, an unexpected error'],
  [EXIT.usage, 'the command was not understood'],
  [EXIT.config, 'the configuration cannot work'],
  [EXIT.database, 'the database cannot be used: unreachable, refused, tables missing or too old'],
  [EXIT.notFound, 'there is no such event, delivery or destination'],
  [EXIT.conflict, 'it does not fit the state, such as editing or redriving what is not dead'],
  [
    EXIT.interrupted,
    'stopped by Ctrl-C, at a point where nothing is half done; what runs until Ctrl-C ends with 0: worker without --once, status --watch, events tail, cleanup and partitions with --interval',
  ],
  [EXIT.pipe, 'whoever read the output left early'],
]

export const EXIT_BY_CODE: Readonly<Record<string, number>> = {
  [ERROR_CODES.invalidConfig]: EXIT.config,
  [ERROR_CODES.missingPeer]: EXIT.config,
  [ERROR_CODES.noListener]: EXIT.config,
  [ERROR_CODES.invalidOption]: EXIT.usage,
  [ERROR_CODES.unsupported]: EXIT.conflict,
  [ERROR_CODES.invalidEvent]: EXIT.usage,
  [ERROR_CODES.storeUnavailable]: EXIT.database,
  [ERROR_CODES.storeBusy]: EXIT.database,
  [ERROR_CODES.storeReadOnly]: EXIT.database,
  [ERROR_CODES.schemaBehind]: EXIT.database,
  [ERROR_CODES.schemaAhead]: EXIT.database,
  [ERROR_CODES.notFound]: EXIT.notFound,
  [ERROR_CODES.unknownDestination]: EXIT.notFound,
  [ERROR_CODES.conflict]: EXIT.conflict,
}
