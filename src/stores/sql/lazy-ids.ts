import { createIdGenerator } from '../../core/model/index.ts'
import type { StoreContext } from '../../core/spi/index.ts'

/** Makes ids of rows. There is no runtime before the store is open, so the generator is made with the first id. */
export const lazyIds = (database: { readonly context: StoreContext }): (() => string) => {
  let generator: (() => string) | null = null
  return () => {
    generator ??= createIdGenerator(database.context.runtime)
    return generator()
  }
}
