/** A file that is half in one part of the tests and not named in the other is run by half. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT } from '../../scripts/run.ts'
import { CLIENT_TARGETS } from '../clients/targets.ts'
import { REST_CLIENTS, REST_FILES, SPLIT_FILES } from '../parts.ts'

const TESTS = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.test.ts') && !path.includes('node_modules'))
  .map((path) => `test/${path}`)
const textOf = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

/** Asks itself in which part it is, or takes the servers from what does. */
const ASKS =
  /import \{[^}]*\bisIn\b[^}]*\} from '\.\.\/parts\.ts'|import \{[^}]*\bSERVERS\b[^}]*\} from '[^']*\/mysql-words\.ts'/

const clientOf = (path: string): string | undefined => /testClient\('([^']+)'\)/.exec(textOf(path))?.[1]

const hasBothParts = (path: string): boolean => {
  const client = clientOf(path)
  if (client !== undefined) return (CLIENT_TARGETS[client]?.databases.length ?? 0) > 1
  return ASKS.test(textOf(path))
}

describe('the parts of the tests', () => {
  it('name files that are there, each once', () => {
    const named = [...REST_FILES, ...SPLIT_FILES]
    expect(named.filter((path) => !TESTS.includes(path))).toEqual([])
    expect(new Set(named).size).toBe(named.length)
  })

  it('name all files that are in both', () => {
    const split = TESTS.filter(hasBothParts)
    expect(split).toContain('test/clients/prisma.test.ts')
    expect(split.filter((path) => ![...REST_FILES, ...SPLIT_FILES].includes(path))).toEqual([])
  })

  it('leave no file to the rest that most tests are to run a half of', () => {
    const whole = REST_FILES.filter(hasBothParts).map(clientOf)
    expect(whole.sort()).toEqual([...REST_CLIENTS].sort())
  })
})
