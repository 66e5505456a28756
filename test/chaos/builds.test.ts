/** Chaos with the previous release: it takes part where it can, and is reported where it cannot. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import type { World } from '../../chaos/nemesis/fault.ts'
import { processFaults } from '../../chaos/nemesis/process-faults.ts'
import { previousBuild, unpack } from '../compat/previous.ts'

const refusal = (previous: { readonly folder: string } | string): string | null | undefined =>
  processFaults
    .find(({ kind }) => kind === 'mixed-versions')
    ?.refusal?.({ task: { previous } } as unknown as World)

it('processes of two builds are mixed when there is another build', () => {
  const folder = previousBuild()
  expect(existsSync(join(folder, 'dist', 'index.mjs'))).toBe(true)
  expect(refusal({ folder })).toBeNull()
})

it('and else it is refused, with the reason', () => {
  expect(refusal('the packed build cannot be unpacked')).toBe('the packed build cannot be unpacked')
})

it('a file that is no packed build is not taken for one, now or later', () => {
  const folder = mkdtempSync(join(tmpdir(), 'posthaste-build-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'broken.tgz')
  writeFileSync(file, 'no archive')
  expect(() => unpack(file)).toThrow()
  expect(() => unpack(file)).toThrow()
})
