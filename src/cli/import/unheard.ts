/** Rows whose type no destination hears: they would be moved, told that they are done, and sent nowhere. */
import type { LoadedOutbox } from '../../config/load-config.ts'
import { compilePattern, matches } from '../../core/policy/routing.ts'
import { BadRow, textOf } from './drafts.ts'
import { asking, type Plan } from './plan.ts'
import { countByType } from './statements.ts'

export interface UnheardType {
  readonly type: string
  readonly rows: number
}

export type IsHeard = (type: string) => boolean

/** Null where nobody has declared a destination, neither this configuration nor a process before it. */
export const hearingOf = async ({ host }: LoadedOutbox): Promise<IsHeard | null> => {
  const { destinations } = await host.registered()
  // What the code says is what its worker will register.
  const byName = new Map(
    [...destinations, ...host.declared()].map(({ name, patterns }) => [name, patterns] as const),
  )
  if (byName.size === 0) return null
  const patterns = [...byName.values()].flat().map(compilePattern)
  return (type) => patterns.some((pattern) => matches(pattern, type))
}

const typesOf = async (
  loaded: LoadedOutbox,
  { reading, rules }: Plan,
  unfinished: number,
): Promise<readonly UnheardType[]> => {
  if (rules.type !== null) return unfinished === 0 ? [] : [{ type: rules.type, rows: unfinished }]
  const column = rules.columns.get('type')
  if (column === undefined) return []
  const counted = await asking(loaded, (sql) => countByType(sql, reading, column))
  return counted.flatMap(({ value, rows }) => {
    try {
      const type = textOf(value, column, 'type')
      return type === null || type === '' ? [] : [{ type, rows }]
    } catch (error) {
      // Such a row cannot become an event, and is named for that.
      if (error instanceof BadRow) return []
      throw error
    }
  })
}

/** Most rows first. */
export const unheardTypes = async (
  loaded: LoadedOutbox,
  plan: Plan,
  unfinished: number,
  isHeard: IsHeard | null,
): Promise<readonly UnheardType[]> => {
  if (isHeard === null) return []
  const types = await typesOf(loaded, plan, unfinished)
  return types.filter(({ type }) => !isHeard(type)).toSorted((a, b) => b.rows - a.rows)
}
