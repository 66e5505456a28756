import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { entries } from '../../tsdown.config.ts'
import { REPOSITORY } from './rules/fixture.ts'
import {
  checkExports,
  checkLockfile,
  checkManifest,
  type Lockfile,
  type Manifest,
} from './rules/package-manifest.ts'
import { readText } from './rules/source-files.ts'

const manifest = JSON.parse(readText(REPOSITORY, 'package.json')) as Manifest
const both = (name: string) => ({
  import: { types: `./dist/${name}.d.mts`, default: `./dist/${name}.mjs` },
  require: { types: `./dist/${name}.d.cts`, default: `./dist/${name}.cjs` },
})

describe('the exports map', () => {
  it('is what the build makes', () => {
    expect(checkExports(manifest, entries)).toEqual([])
  })

  it('accepts nested entries', () => {
    const exports = { './clients/pg': both('clients/pg'), './package.json': './package.json' }
    expect(checkExports({ exports }, { 'clients/pg': 'src/clients/pg/index.ts' })).toEqual([])
  })

  it('refuses a missing, a wrong and an extra subpath', () => {
    const exports = {
      '.': both('main'),
      './extra': both('extra'),
      './package.json': './package.json',
    }
    const violations = checkExports({ exports }, { index: 'src/index.ts', sqlite: 'src/sqlite.ts' })
    expect(violations).toEqual([
      expect.stringContaining('exports["."] must be {"import":{"types":"./dist/index.d.mts"'),
      expect.stringContaining('exports["./sqlite"] must be'),
      'package.json: exports["./extra"] has no entry in tsdown.config.ts',
    ])
  })
})

describe('the manifest', () => {
  it('has no dependencies, exact tools, and nothing that runs at install', () => {
    expect(checkManifest(manifest)).toEqual([])
  })

  it('refuses a dependency, a range, and an install script', () => {
    const violations = checkManifest({
      dependencies: { left: '1.0.0' },
      devDependencies: { zod: '^4.0.0', 'zod-3': 'npm:zod@3.25.0' },
      scripts: { postinstall: 'node x.js' },
    })
    expect(violations).toEqual([
      expect.stringContaining('"left" is a dependency'),
      expect.stringContaining('pin "zod" exactly'),
      expect.stringContaining('a "postinstall" script'),
    ])
  })
})

describe('the lockfiles', () => {
  it.each(['package-lock.json', 'test/nodes/package-lock.json', 'bench/peers/package-lock.json'])(
    '%s has checksums and no addresses',
    (path) => {
      expect(existsSync(join(REPOSITORY, path))).toBe(true)
      expect(checkLockfile(path, JSON.parse(readText(REPOSITORY, path)) as Lockfile)).toEqual([])
    },
  )

  it('are refused with an address or without a checksum', () => {
    const packages = {
      '': {},
      'node_modules/a': { resolved: 'somewhere', integrity: 'sha512-x' },
      'node_modules/b': {},
    }
    expect(checkLockfile('lock', { packages })).toEqual([
      expect.stringContaining('lock: node_modules/a has a "resolved" address'),
      expect.stringContaining('lock: node_modules/b has no checksum'),
    ])
  })
})
