import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { MUTANTS } from '../../mutants/catalogue/index.ts'
import { commandOf, partsOf } from '../../mutants/hunters.ts'
import { mutate } from '../../mutants/mutant.ts'

const ROOT = join(import.meta.dirname, '../..')

describe('the catalogue of mutants', () => {
  it('has at least 40 of them, each with a name of its own', () => {
    expect(MUTANTS.length).toBeGreaterThanOrEqual(40)
    expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length)
  })

  it.each(MUTANTS)('can still plant $name', (mutant) => {
    const healthy = readFileSync(join(ROOT, mutant.file), 'utf8')
    expect(mutate(healthy, mutant)).not.toBe(healthy)
  })

  it.each(MUTANTS)('names hunters for $name that exist', ({ hunters }) => {
    expect(hunters.length).toBeGreaterThan(0)
    for (const hunter of hunters)
      expect(hunter === 'simulator' || existsSync(join(ROOT, partsOf(hunter)[0])), hunter).toBe(true)
  })

  it.each([
    ['src/core/flow/queues.test.ts', ['unit']],
    ['test/journeys/failures.test.ts', ['embedded', 'journeys']],
    ['test/journeys/processes.test.ts', ['embedded', 'journeys']],
    ['test/stores/postgres.test.ts', ['databases']],
  ] as const)('looks for %s in the projects that may hold it', (hunter, projects) => {
    const command = commandOf(hunter)
    expect(command.filter((_, index) => command[index - 1] === '--project')).toEqual(projects)
  })
})
