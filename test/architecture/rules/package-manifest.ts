/** The published face: the exports map says exactly what the build makes, and installing runs and fetches nothing odd. */
import { isDeepStrictEqual } from 'node:util'
import type { Violation } from './source-files.ts'

export interface Manifest {
  readonly exports?: Readonly<Record<string, unknown>>
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
  readonly scripts?: Readonly<Record<string, string>>
}

export interface Lockfile {
  readonly packages: Readonly<Record<string, { readonly resolved?: string; readonly integrity?: string }>>
}

const subpathOf = (entry: string): string => (entry === 'index' ? '.' : `./${entry}`)

const conditionsOf = (entry: string): unknown => ({
  import: { types: `./dist/${entry}.d.mts`, default: `./dist/${entry}.mjs` },
  require: { types: `./dist/${entry}.d.cts`, default: `./dist/${entry}.cjs` },
})

/** The exports map must be what the build's entries imply: not less, not more. */
export const checkExports = (manifest: Manifest, entries: Readonly<Record<string, string>>): Violation[] => {
  const actual = manifest.exports ?? {}
  const expected = new Map(Object.keys(entries).map((entry) => [subpathOf(entry), conditionsOf(entry)]))
  expected.set('./package.json', './package.json')
  const wrong = [...expected].flatMap(([subpath, conditions]) =>
    isDeepStrictEqual(actual[subpath], conditions)
      ? []
      : [`package.json: exports["${subpath}"] must be ${JSON.stringify(conditions)}`],
  )
  const extra = Object.keys(actual).filter((subpath) => !expected.has(subpath))
  return [
    ...wrong,
    ...extra.map((subpath) => `package.json: exports["${subpath}"] has no entry in tsdown.config.ts`),
  ]
}

const AT_INSTALL = ['preinstall', 'install', 'postinstall', 'prepare']
/** Also under a name of our own, beside another version of the same package. */
const EXACT = /^(npm:[\w./@-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/

export const checkManifest = (manifest: Manifest): Violation[] => [
  ...Object.keys(manifest.dependencies ?? {}).map(
    (name) => `package.json: "${name}" is a dependency; the library has none, so make it an optional peer`,
  ),
  ...Object.entries(manifest.devDependencies ?? {})
    .filter(([, version]) => !EXACT.test(version))
    .map(([name, version]) => `package.json: pin "${name}" exactly, not "${version}"`),
  ...AT_INSTALL.filter((script) => manifest.scripts?.[script] !== undefined).map(
    (script) => `package.json: a "${script}" script runs on the user's machine at install; remove it`,
  ),
]

/** Addresses would tie everybody to one registry; checksums are what makes the lockfile worth having. */
export const checkLockfile = (name: string, lockfile: Lockfile): Violation[] =>
  Object.entries(lockfile.packages).flatMap(([path, { resolved, integrity }]) => {
    if (path === '') return []
    if (resolved !== undefined) {
      return [`${name}: ${path} has a "resolved" address; regenerate it with this folder's .npmrc`]
    }
    return integrity === undefined ? [`${name}: ${path} has no checksum; regenerate the lockfile`] : []
  })
