import type { OutboxOptions } from '../src/core/options.ts'
import type { MemoryTransaction } from '../src/stores/memory/index.ts'
import type { Layer } from './intercept.ts'
import type { World } from './world.ts'

type Options = Omit<OutboxOptions<MemoryTransaction, MemoryTransaction>, 'store'>

/** A mistake planted around the library, to prove that the simulator would notice it. */
export interface Defect {
  readonly name: string
  readonly says: string
  /** Around the database itself, below the observer. */
  readonly database?: (world: World) => Layer
  readonly options?: (options: Options) => Options
  readonly answersCommitEarly?: boolean
}

export const DEFECTS: readonly Defect[] = []
