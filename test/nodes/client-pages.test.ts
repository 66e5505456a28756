/** The programs of docs/clients that need a newer Node, with the packages that are installed here. */
import { expect, it } from 'vitest'
import { CLIENT_TARGETS } from '../clients/targets.ts'
import { runClientPage } from '../docs/client-pages.ts'

const pages = Object.entries(CLIENT_TARGETS).filter(([, { node }]) => node !== null)

it.each(pages)('the page of %s prints what it says', async (name) => {
  const { printed, said } = await runClientPage(name, { parent: import.meta.dirname })
  expect(printed).toEqual(said)
})
