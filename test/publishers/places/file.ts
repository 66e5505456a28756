import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { filePublisher } from '../../../src/publishers/file.ts'
import type { PublisherHarness, ReceivedMessage } from '../../../src/testing/suites/index.ts'
import { lowerNames, untilThere } from '../received.ts'

interface Line {
  readonly headers?: Record<string, string>
  readonly contentType?: string
  readonly data_base64?: string
}

/** The payload as it stands in the line, because parsing would hide what was done to it. */
const dataIn = (line: string): string => /"data":(.*)}$/.exec(line)?.[1] ?? ''

const messageOf = (line: string): ReceivedMessage => {
  const parsed = JSON.parse(line) as Line
  // One document of CloudEvents.
  if (parsed.headers === undefined)
    return { body: Buffer.from(line), contentType: 'application/cloudevents+json', key: null, headers: {} }
  const { headers, contentType = null, data_base64: base64 } = parsed
  const body = base64 === undefined ? Buffer.from(dataIn(line)) : Buffer.from(base64, 'base64')
  return { body, contentType, key: headers['event-key'] ?? null, headers: lowerNames(headers) }
}

export const createFilePlace = async (): Promise<PublisherHarness> => {
  const folder = mkdtempSync(join(tmpdir(), 'posthaste-file-'))
  const path = join(folder, 'events.ndjson')
  const lines = (): string[] => readFileSync(path, 'utf8').split('\n').slice(0, -1)
  return {
    topic: 'orders',
    keepsKey: true,
    open: ({ format = 'plain' } = {}) =>
      filePublisher({ path, format: format === 'cloudevents-binary' ? 'plain' : format }),
    received: (count) => untilThere(count, async () => lines().map(messageOf)),
    dispose: async () => rmSync(folder, { recursive: true, force: true }),
  }
}
