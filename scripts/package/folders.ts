/**
 * An empty project for one data layer: the packed package as a user would have it, what the layer needs, and nothing
 * else. Packages come from what is installed here, as links; Node and the compiler are told to look at the links and
 * not at where they lead, so that nothing else is found.
 */
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { generatePrisma } from '../prisma.ts'
import { ROOT } from '../run.ts'
import { type Layer, programOf } from './layers.ts'

interface Locked {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>
}

type Lockfile = Readonly<Record<string, Locked>>

const lockfileOf = (home: string): Lockfile =>
  (JSON.parse(readFileSync(join(home, 'package-lock.json'), 'utf8')) as { readonly packages: Lockfile })
    .packages

/** Better-sqlite3 is installed there, because it is not for the lowest Node. */
const NODES = join(ROOT, 'test', 'nodes')

/** Where Node would find `name` from the package at `from`; the lockfile's paths are those of the folders. */
const locate = (lockfile: Lockfile, from: string, name: string): string | null => {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf('node_modules/') - 1))) {
    const candidate = `${at === '' ? '' : `${at}/`}node_modules/${name}`
    if (candidate in lockfile) return candidate
    if (at === '') return null
  }
}

const neededBy = (entry: Locked): string[] => [
  ...Object.keys(entry.dependencies ?? {}),
  ...Object.keys(entry.optionalDependencies ?? {}),
  ...Object.keys(entry.peerDependencies ?? {}).filter(
    (name) => !entry.peerDependenciesMeta?.[name]?.optional,
  ),
]

/** These packages and everything that they need, as paths of the lockfile. */
const closure = (lockfile: Lockfile, names: readonly string[]): ReadonlySet<string> => {
  const found = new Set<string>()
  const todo = names.map((name) => ({ from: '', name }))
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    const path = locate(lockfile, next.from, next.name)
    if (path === null || found.has(path)) continue
    found.add(path)
    for (const name of neededBy(lockfile[path] ?? {})) todo.push({ from: path, name })
  }
  return found
}

const link = (home: string, source: string, path: string): void => {
  const target = join(home, path)
  // Those of other processors are in the lockfile and not in the folder; what lies inside of another comes with it.
  if (path.lastIndexOf('node_modules/') > 0 || existsSync(target) || !existsSync(join(source, path))) return
  mkdirSync(dirname(target), { recursive: true })
  symlinkSync(join(source, path), target)
}

export const unpack = (home: string, tarball: string): void => {
  const target = join(home, 'node_modules', 'posthaste')
  mkdirSync(target, { recursive: true })
  execFileSync('tar', ['-xzf', tarball, '-C', target, '--strip-components=1'])
  writeFileSync(join(home, 'package.json'), '{ "private": true }')
}

const PRISMA_SCHEMA = `generator client {
  provider = "prisma-client-js"
  output   = "./generated"
}

datasource db {
  provider = "postgresql"
}

model Order {
  id Int @id
}
`

/** First that no other library could be found, then the program in both forms. */
const runnerFor = (present: readonly string[]): string => `import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
const require = createRequire(import.meta.url)
const inside = createRequire(require.resolve('posthaste/package.json'))
const present = ${JSON.stringify(present)}
for (const name of Object.keys(inside('./package.json').peerDependencies)) {
  if (!present.includes(name)) assert.throws(() => inside.resolve(name), { code: 'MODULE_NOT_FOUND' })
}
const [, , url, name] = process.argv
const forms = { esm: () => import('./main.mjs'), cjs: () => require('./main.cjs') }
for (const [form, load] of Object.entries(forms)) {
  const { run } = await load()
  const place = { url, name: name + '_' + form }
  assert.equal(await run(place), place.name)
}
`

/** Everything but the compiled program. */
export const furnish = async (home: string, layer: Layer, tarball: string): Promise<void> => {
  unpack(home, tarball)
  const { packages, types = [], name } = layer
  const present: string[] = []
  for (const source of [ROOT, NODES]) {
    const paths = closure(lockfileOf(source), [...packages, ...types, '@types/node'])
    for (const path of paths) link(home, source, path)
    present.push(...[...paths].map((path) => path.replace(/^node_modules\//, '')))
  }
  if (name === 'prisma') {
    writeFileSync(join(home, 'schema.prisma'), PRISMA_SCHEMA)
    await generatePrisma(home)
  }
  if (name === 'node-sqlite') copyFileSync(join(NODES, 'node-sqlite.d.ts'), join(home, 'node-sqlite.d.ts'))
  for (const extension of ['mts', 'cts']) writeFileSync(join(home, `main.${extension}`), programOf(layer))
  writeFileSync(join(home, 'runner.mjs'), runnerFor(present))
}
