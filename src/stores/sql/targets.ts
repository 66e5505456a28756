/** What an operator's target asks of the statement that looks for it. */
import type { OperationTarget } from '../../core/spi/index.ts'

/** Only filters on the event need the event. */
export const asksForEvent = ({ type, tenantId, storedFromMs, storedBeforeMs }: OperationTarget): boolean =>
  [type, tenantId, storedFromMs, storedBeforeMs].some((filter) => filter !== undefined)

export const NO_TARGET = 'An operation needs a target: ids, a destination, a type, a key, a tenant or a time.'
