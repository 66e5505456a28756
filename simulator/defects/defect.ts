/** What a planted defect is, and the ways in which most of them are planted. */
import type { OutboxOptions } from '../../src/core/options.ts'
import type { Settlement, SettleRequest } from '../../src/core/spi/index.ts'
import type { MemoryTransaction } from '../../src/stores/memory/index.ts'
import type { Boot } from '../boot.ts'
import type { Call, Layer } from '../intercept.ts'
import type { World } from '../world.ts'

export type Options = Omit<OutboxOptions<MemoryTransaction, MemoryTransaction>, 'store'>

export interface Defect {
  readonly name: string
  readonly says: string
  /** Around the database itself, below the observer. */
  readonly database?: (world: World, boot: Boot) => Layer
  readonly options?: (options: Options) => Options
  /** The transaction is believed to be committed when COMMIT is sent, or whatever the answer is. */
  readonly believes?: 'sent' | 'unknown' | 'rolledBack'
  /** A savepoint that is rolled back stays. */
  readonly keepsSavepoints?: boolean
}

/** A layer that changes some methods and leaves the others alone. */
export const changing =
  (methods: Readonly<Record<string, (args: readonly unknown[], next: Call) => Promise<unknown>>>): Layer =>
  (name, args, next) =>
    methods[name]?.(args, next) ?? next(args)

export const changingSettlements = (change: (settlement: Settlement) => Settlement): Layer =>
  changing({
    'queue.settle': ([request], next) => {
      const given = request as SettleRequest
      return next([{ ...given, settlements: given.settlements.map(change) }])
    },
  })

export const liveWorker = (world: World): string | undefined =>
  [...world.database.workers.values()].find(({ fenced }) => !fenced)?.id
