/** All mutants, in the order of an event's journey, and then the stores. */
import type { Mutant } from '../mutant.ts'
import { DISPATCH } from './dispatch.ts'
import { EMBEDDED_STORES } from './embedded-stores.ts'
import { LANES_AND_READS } from './lanes-and-reads.ts'
import { NETWORK_STORES } from './network-stores.ts'
import { OPERATORS } from './operators.ts'
import { PUBLISH } from './publish.ts'

export const MUTANTS: readonly Mutant[] = [
  ...PUBLISH,
  ...LANES_AND_READS,
  ...DISPATCH,
  ...OPERATORS,
  ...EMBEDDED_STORES,
  ...NETWORK_STORES,
]
