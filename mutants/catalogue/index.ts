/** All mutants, in the order of an event's journey. */
import type { Mutant } from '../mutant.ts'
import { DISPATCH } from './dispatch.ts'
import { LANES_AND_READS } from './lanes-and-reads.ts'
import { PUBLISH } from './publish.ts'

export const MUTANTS: readonly Mutant[] = [...PUBLISH, ...LANES_AND_READS, ...DISPATCH]
