/** Which deliveries of a batch may still be sent. */
import type { Delivery } from '../model/delivery.ts'

/** Rows of one read share the right of their lane, so it is looked at once; `isValid` lets go of those that are not. */
export const validOf = (
  batch: readonly Delivery[],
  isValid: (delivery: Delivery) => boolean,
): readonly Delivery[] => {
  let checked: Delivery['right'] | null = null
  return batch.filter((delivery) => {
    if (delivery.right === checked) return true
    const valid = isValid(delivery)
    checked = valid && delivery.right.kind === 'lane' ? delivery.right : null
    return valid
  })
}
