/**
 * Who may import whom. The arrows point one way, from the edges to the core, so that the core can be read,
 * tested and simulated alone, and a store can be added or removed without touching another.
 *
 * The law is the table below; the first layer that a file belongs to decides.
 */
import { type Import, importsOf, isTest, isTypeScript, listFiles, type Violation } from './source-files.ts'

interface Layer {
  /** A file or a folder; `<x>` stands for one folder's name and means the same name in `may`. */
  readonly of: string
  /** Files and folders that it may import, beside itself. */
  readonly may: readonly string[]
  /** What it may import as types only. */
  readonly mayAsTypes?: readonly string[]
  /** Node's modules that it may import. */
  readonly node: 'any' | readonly string[]
  /** Packages that it may import: it is of no use without them. */
  readonly packages?: readonly string[]
}

/** Neither time, chance nor I/O in them, so the simulator need not replace them. */
const HARMLESS_NODE = [
  'node:async_hooks',
  'node:buffer',
  'node:diagnostics_channel',
  'node:util',
  'node:util/types',
] as const

/** What a store sees of the core: doors, not rooms. */
const CORE_FOR_STORES = ['src/core/model/index.ts', 'src/core/spi/index.ts', 'src/core/errors.ts'] as const

const LAW: readonly Layer[] = [
  { of: 'src/core/runtime/system-runtime.ts', may: ['src/core'], node: 'any' },
  { of: 'src/core/errors.ts', may: [], node: [] },
  { of: 'src/core/model', may: ['src/core/errors.ts'], node: [] },
  { of: 'src/core/spi', may: ['src/core/model', 'src/core/errors.ts'], node: HARMLESS_NODE },
  {
    of: 'src/core/policy',
    may: ['src/core/model', 'src/core/errors.ts'],
    mayAsTypes: ['src/core/spi'],
    node: HARMLESS_NODE,
  },
  { of: 'src/core', may: [], node: HARMLESS_NODE },
  { of: 'src/index.ts', may: ['src/core'], node: [] },
  { of: 'src/stores/sql', may: CORE_FOR_STORES, node: 'any' },
  { of: 'src/stores/<x>', may: [...CORE_FOR_STORES, 'src/stores/sql'], node: 'any' },
  {
    // What stores know about their databases and drivers, clients need not write again.
    of: 'src/clients',
    may: [
      ...CORE_FOR_STORES,
      // To wait for a lock: a store is handed its runtime, a client is not.
      'src/core/runtime/system-runtime.ts',
      'src/stores/sql',
      'src/stores/mysql',
      'src/stores/postgres',
      'src/stores/sqlite',
    ],
    node: HARMLESS_NODE,
  },
  // What publishers share, and each by itself.
  { of: 'src/publishers/shared', may: CORE_FOR_STORES, node: 'any' },
  { of: 'src/publishers', may: CORE_FOR_STORES, node: 'any' },
  {
    of: 'src/nestjs',
    may: ['src/core'],
    node: HARMLESS_NODE,
    packages: ['@nestjs/common', '@nestjs/core'],
  },
  // Exporters: they turn what the core tells into the words of others.
  { of: 'src/prometheus', may: ['src/core'], node: HARMLESS_NODE },
  { of: 'src/otel', may: ['src/core'], node: HARMLESS_NODE, packages: ['@opentelemetry/api'] },
  // Loads the user's own file, and makes a store where an address is all there is.
  {
    of: 'src/config',
    may: ['src/core', 'src/stores/mysql', 'src/stores/postgres', 'src/stores/sqlite'],
    node: 'any',
  },
  { of: 'src/cli', may: ['src/core', 'src/config', 'src/prometheus'], node: 'any' },
  { of: 'src/testing', may: ['src/core', 'src/stores/memory'], node: 'any' },
]

/** These use the library; the library must not know them. */
const OUTSIDE_SRC = ['test', 'demo', 'bench', 'simulator', 'chaos', 'mutants', 'scripts', 'examples']

const within = (path: string, place: string): boolean => path === place || path.startsWith(`${place}/`)

/** The layer's own place with `<x>` filled in for this file, or null when the file is not in it. */
const placeOf = (layer: Layer, path: string): string | null => {
  if (!layer.of.includes('<x>')) return within(path, layer.of) ? layer.of : null
  const pattern = new RegExp(`^${layer.of.replace('<x>', '[^/]+')}(?=/)`)
  return pattern.exec(path)?.[0] ?? null
}

const judgeTarget = (layer: Layer, place: string, found: Import, target: string): string | null => {
  if ([place, ...layer.may].some((allowed) => within(target, allowed))) return null
  const asTypes = layer.mayAsTypes?.some((allowed) => within(target, allowed)) ?? false
  if (asTypes) return found.typeOnly ? null : `may import ${target} as types only (import type)`
  const allowed = [...layer.may, ...(layer.mayAsTypes ?? []).map((place) => `types of ${place}`)]
  return `may import only itself${allowed.map((a) => `, ${a}`).join('')}; not ${target}`
}

const judgePackage = (layer: Layer | undefined, found: Import): string | null => {
  if (!found.specifier.startsWith('node:')) {
    // The package has no dependencies: drivers are typed by the shape we use and loaded when they are needed.
    if (found.dynamic || layer?.packages?.includes(found.specifier)) return null
    return `imports the package "${found.specifier}": describe the shape that is used, and load it with import()`
  }
  if (layer === undefined || layer.node === 'any' || layer.node.includes(found.specifier)) return null
  const allowed =
    layer.node.length === 0 ? 'none of Node’s modules' : `only ${layer.node.join(', ')} of Node’s modules`
  return `may import ${allowed}, not ${found.specifier}: go through Runtime`
}

const judge = (path: string, found: Import): string | null => {
  const { target } = found
  if (target !== null && !within(target, 'src')) {
    const known = OUTSIDE_SRC.find((place) => within(target, place))
    return `is part of the library and may not import ${known === undefined ? target : `${known}/ (${target})`}`
  }
  // Unit tests lie beside the code they test; they are not shipped and may use whatever src has.
  if (isTest(path)) return null
  const layer = LAW.find((candidate) => placeOf(candidate, path) !== null)
  if (target === null) return judgePackage(layer, found)
  return layer === undefined ? null : judgeTarget(layer, placeOf(layer, path) ?? layer.of, found, target)
}

export const checkImports = (root: string): Violation[] =>
  listFiles(root, 'src', isTypeScript).flatMap((path) =>
    importsOf(root, path).flatMap((found) => {
      const problem = judge(path, found)
      return problem === null ? [] : [`${path}:${found.line} ${problem}`]
    }),
  )
