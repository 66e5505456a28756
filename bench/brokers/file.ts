import { mkdtempSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { filePublisher } from '../../src/publishers/file.ts'
import { type Carrier, newName, type RawMessage, WINDOW } from './carriers.ts'

const lineOf = (topic: string, { body, contentType, headers }: RawMessage): string =>
  `${JSON.stringify({ topic, contentType, headers: Object.fromEntries(headers) }).slice(0, -1)},"data":${body}}\n`

export const file: Carrier = {
  name: 'file',
  service: null,
  client: 'node:fs',
  async open() {
    const folder = mkdtempSync(join(tmpdir(), 'posthaste-bench-'))
    const topic = newName()
    return {
      topic,
      publisher: () => filePublisher({ path: join(folder, 'posthaste.ndjson') }),
      async raw() {
        const handle = await open(join(folder, 'raw.ndjson'), 'a')
        return {
          async send(messages) {
            for (let from = 0; from < messages.length; from += WINDOW) {
              const lines = messages.slice(from, from + WINDOW).map((message) => lineOf(topic, message))
              await handle.appendFile(lines.join(''))
              await handle.datasync()
            }
          },
          close: () => handle.close(),
        }
      },
      remove: async () => rmSync(folder, { recursive: true }),
    }
  },
}
