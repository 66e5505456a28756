/** docs/options.md says what the code does: every option, its default and its bounds. */
import { join } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import {
  DEFAULTS,
  type DestinationOptions,
  type OutboxOptions,
  resolveOptions,
} from '../../src/core/options.ts'
import { BREAKER_DEFAULTS, type BreakerOptions, createBreaker } from '../../src/core/policy/breaker.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { ROOT, readPage } from './code-blocks.ts'

interface Row {
  readonly name: string
  readonly default: string
  readonly bounds: string
}

const rowsOf = (heading: string): Row[] => {
  const section =
    readPage('docs/options.md')
      .split(/^## /m)
      .find((text) => text.startsWith(`${heading}\n`)) ?? ''
  return [...section.matchAll(/^\| `(\w+)` \| ([^|]*) \|[^|]*\| ([^|]*)\|/gm)].map(
    ([, name = '', value = '', bounds = '']) => ({
      name,
      default: value.trim(),
      bounds: bounds.trim(),
    }),
  )
}

const plain = (text: string): string => text.replaceAll(',', '')

/** Names of an interface's properties, from its source. */
const propertiesOf = (path: string, name: string): string[] => {
  const program = ts.createSourceFile(path, ts.sys.readFile(join(ROOT, path)) ?? '', ts.ScriptTarget.ES2023)
  const found = program.statements.find((node) => ts.isInterfaceDeclaration(node) && node.name.text === name)
  if (found === undefined || !ts.isInterfaceDeclaration(found)) throw new Error(`${path} has no ${name}`)
  return found.members.map((member) => (member.name as ts.Identifier).text)
}

const sorted = (names: readonly string[]): string[] => [...names].sort()

/** The code names its bounds when it refuses a value; `-0.5` is in nobody's range. */
const boundsBySaying = (attempt: () => unknown): string | null => {
  try {
    attempt()
    return null
  } catch (error) {
    const [, low, high] = / from ([\d.]+) to ([\d.]+)/.exec((error as Error).message) ?? []
    return low === undefined ? null : `${low} – ${high}`
  }
}

const outboxWith = (option: Partial<OutboxOptions<never, never>>): unknown =>
  resolveOptions({ store: memoryStore() as never, ...option })

const destinationWith = (option: Partial<DestinationOptions>): unknown =>
  outboxWith({ destinations: { d: { events: ['*'], ...option } } })

const checks = [
  {
    heading: 'createOutbox',
    properties: propertiesOf('src/core/options.ts', 'OutboxOptions'),
    bounds: (name: string) => boundsBySaying(() => outboxWith({ [name]: -0.5 })),
  },
  {
    heading: 'A destination',
    properties: propertiesOf('src/core/options.ts', 'DestinationOptions'),
    bounds: (name: string) => boundsBySaying(() => destinationWith({ [name]: -0.5 })),
  },
  {
    heading: 'breaker',
    properties: propertiesOf('src/core/policy/breaker.ts', 'BreakerOptions'),
    bounds: (name: string) =>
      boundsBySaying(() => createBreaker({ [name]: -0.5 } as Partial<BreakerOptions>, Math.random)),
  },
]

describe.each(checks)('options of $heading', ({ heading, properties, bounds }) => {
  const rows = rowsOf(heading)

  it('are all there, and no others', () => {
    expect(sorted(rows.map(({ name }) => name))).toEqual(sorted(properties))
  })

  it('have the defaults of the code', () => {
    const known: Readonly<Record<string, unknown>> =
      heading === 'breaker' ? { ...BREAKER_DEFAULTS } : DEFAULTS
    const numbers = rows.filter(({ name }) => name in known)
    expect(numbers.map((row) => [row.name, plain(row.default)])).toEqual(
      numbers.map(({ name }) => [name, String(known[name])]),
    )
    expect(numbers.length).toBeGreaterThan(2)
  })

  it('have the bounds of the code', () => {
    // Two depend on another option; the code says the number, the page says which option.
    const relative = new Map([
      ['laneRenewMs', '1 – half of the lease'],
      ['maxOpenMs', '`openMs` – 3600000'],
    ])
    const said = rows.flatMap(({ name }) => {
      const found = bounds(name)
      return found === null ? [] : [[name, relative.get(name) ?? found] as const]
    })
    const written = new Map(rows.map((row) => [row.name, plain(row.bounds)]))
    expect(said.map(([name]) => [name, written.get(name)])).toEqual(said)
    expect(said.length).toBeGreaterThan(2)
  })
})
