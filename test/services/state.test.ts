import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ServicesError } from '../../scripts/services/service.ts'
import { readState, type State, writeState } from '../../scripts/services/state.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'posthaste-state-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

describe('the state of services', () => {
  it('is empty before the first command', () => {
    expect(readState(folder)).toEqual({})
  })

  it('is what was written last, in one file', () => {
    const state: State = {
      postgres: { port: 25_413, process: { pid: 7, birth: 'boot/1' }, durable: true },
      mysql: { port: 23_307, process: null, durable: false },
    }
    writeState(folder, {})
    writeState(folder, state)
    expect(readState(folder)).toEqual(state)
    expect(readdirSync(folder)).toEqual(['state.json'])
  })

  it('says which file is damaged, and what to do', () => {
    writeFileSync(join(folder, 'state.json'), '{"postgres":')
    expect(() => readState(folder)).toThrow(ServicesError)
    expect(() => readState(folder)).toThrow(/state\.json cannot be read .* delete the file/)
  })
})
