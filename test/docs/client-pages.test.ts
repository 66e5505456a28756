/** Every client has a page, and what it says is what is tested. Those on a database in the process are run here. */
import { describe, expect, it } from 'vitest'
import { serverOf } from '../clients/databases.ts'
import { CLIENT_TARGETS } from '../clients/targets.ts'
import { clientPage, runClientPage } from './client-pages.ts'
import { CLIENT_PAGES, codeBlocks, readPage } from './code-blocks.ts'

const targets = Object.entries(CLIENT_TARGETS)

/** The others are run by test/databases and test/nodes. */
const embedded = targets.filter(
  ([, { databases, node }]) => node === null && databases.every((one) => serverOf(one) === null),
)

describe('pages of clients', () => {
  it('are there for each of them, and for nothing else', () => {
    expect([...CLIENT_PAGES].sort()).toEqual(targets.map(([name]) => clientPage(name)).sort())
  })

  it.each(targets)(
    '%s: names the client, what to install, and one program with what it prints',
    (name, target) => {
      const page = readPage(clientPage(name))
      const blocks = codeBlocks(clientPage(name))
      const [install] = blocks
      const isBuiltIn = target.package.startsWith('node:')
      expect(install?.language).toBe('sh')
      expect(install?.code).toMatch(
        isBuiltIn ? /posthaste$/m : new RegExp(`posthaste.* ${target.package}\\b`),
      )
      const programs = blocks.filter(({ flags }) => flags.includes('run'))
      expect(programs).toHaveLength(1)
      expect(programs[0]?.code).toContain(`{ ${target.says.function} } from 'posthaste/clients/${name}'`)
      expect(blocks.at(-1)).toMatchObject({ language: 'text', flags: ['output'] })
      expect(page.includes('go the hot way')).toBe(target.says.commitHooks)
      expect(page.includes('poller finds')).toBe(!target.says.commitHooks)
    },
  )

  it.each(embedded)('%s: prints what it says', async (name) => {
    const { printed, said } = await runClientPage(name)
    expect(printed).toEqual(said)
  })
})
