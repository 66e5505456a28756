/**
 * Mistakes planted around the library: each breaks one of the rules on which delivery rests, as a bug in a store or
 * in the core would. The simulator is worth something only if it notices every one of them.
 */
import type { Defect } from './defect.ts'
import { DELIVERY } from './delivery.ts'
import { OPERATORS } from './operators.ts'
import { PUBLISH } from './publish.ts'
import { RIGHTS } from './rights.ts'

export type { Defect } from './defect.ts'

export const DEFECTS: readonly Defect[] = [...PUBLISH, ...RIGHTS, ...DELIVERY, ...OPERATORS]

export const findDefect = (name: string): Defect | undefined => DEFECTS.find((defect) => defect.name === name)
