/** The table of libraries in docs/clients.md says what is tested, and nothing else. */

import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { entries } from '../../tsdown.config.ts'
import { libraryTable } from '../clients/table.ts'
import { CLIENT_TARGETS } from '../clients/targets.ts'
import { ROOT, readPage } from './code-blocks.ts'

describe('the table of libraries', () => {
  it('is what the tests run', () => {
    const [, table] =
      /<!-- libraries -->\n([\s\S]*?)\n?<!-- \/libraries -->/.exec(readPage('docs/clients.md')) ?? []
    expect(table).toBe(libraryTable())
  })

  it('has every client that is published', () => {
    const published = Object.keys(entries).filter((name) => name.startsWith('clients/'))
    expect(
      Object.keys(CLIENT_TARGETS)
        .map((name) => `clients/${name}`)
        .sort(),
    ).toEqual(published.sort())
  })

  it.each(Object.entries(CLIENT_TARGETS))('%s exports what it says', async (name, { says }) => {
    const module = (await import(join(ROOT, entries[`clients/${name}`] ?? ''))) as Record<string, unknown>
    expect(Object.keys(module)).toEqual([says.function])
  })
})
