/** Databases for the tests, each in a folder of its own under the system's temporary folder. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createSystemRuntime } from '../../src/core/runtime/system-runtime.ts'
import type { LogLevel, StoreContext } from '../../src/core/spi/index.ts'

export interface TestFolder {
  readonly path: string
  readonly file: string
  remove(): void
}

export const testFolder = (): TestFolder => {
  const path = mkdtempSync(join(tmpdir(), 'posthaste-sqlite-'))
  return { path, file: join(path, 'outbox.db'), remove: () => rmSync(path, { recursive: true, force: true }) }
}

export interface LogLine {
  readonly level: LogLevel
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>> | undefined
}

export const testContext = (lines: LogLine[] = []): StoreContext => ({
  runtime: createSystemRuntime(),
  logger: { log: (level, message, fields) => lines.push({ level, message, fields }) },
})
