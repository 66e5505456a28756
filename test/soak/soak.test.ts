/** A short soak on SQLite: too short to say what is flat, long enough to see that everything is measured and kept. */
import { existsSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { runSoak } from '../../soak/run.ts'

it('measures, plots, and loses nothing', { timeout: 300_000 }, async () => {
  const { folder, plots, verdict } = await runSoak({
    store: 'sqlite',
    seed: 3,
    minutes: 0.25,
    eventsPerSecond: 60,
    label: 'soaktest',
    progress: () => undefined,
  })
  expect(verdict, folder).toMatchObject({ lost: 0, ok: true })
  expect(verdict.published).toBeGreaterThan(20)
  expect(verdict.samples).toBeGreaterThan(3)
  expect(Object.keys(verdict.faults).length).toBeGreaterThan(0)
  const names = plots.map((file) => file.slice(folder.length + 1))
  for (const name of ['rss', 'handles', 'tables', 'indexes', 'rows', 'lag'])
    expect(names).toContain(`${name}.svg`)
  for (const file of plots) expect(readFileSync(file, 'utf8')).toMatch(/^<svg .*<\/svg>\n$/s)
  expect(existsSync(`${folder}/soak.json`)).toBe(true)
})
