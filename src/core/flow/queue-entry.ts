/** One delivery in the queues of its destination. */
import type { Delivery } from '../model/delivery.ts'

/** `settling` went well and is being written; `leaving` failed or waited behind one that did, and nobody sends it. */
type Phase = 'ready' | 'waiting' | 'running' | 'settling' | 'leaving'

/** No literal, because there are thousands: see "Memory" in ARCHITECTURE.md. */
export class Entry {
  declare delivery: Delivery
  declare phase: Phase

  constructor(delivery: Delivery) {
    this.delivery = delivery
    this.phase = 'ready'
  }

  /** It is over. The tables of a Map that it was in may keep it for a while, which should not be much. */
  empty(): void {
    ;(this as { delivery: Delivery | null }).delivery = null
  }
}
