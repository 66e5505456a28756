/**
 * Keeps born claims alive. A hot delivery that is still queued or running at half its lease is extended by
 * its token, many in one statement. A claim that was replaced in the meantime is reported as lost.
 */
import type { Cancel, Logger, Runtime, Store } from '../spi/index.ts'

interface Claim {
  readonly token: string
  until: number
}

export class HotClaims {
  readonly #claims = new Map<string, Claim>()
  readonly #store: Store
  readonly #runtime: Runtime
  readonly #logger: Logger
  readonly #leaseMs: number
  readonly #onLost: (deliveryId: string) => void
  #timer: Cancel | null = null
  #extending = false

  constructor(
    store: Store,
    runtime: Runtime,
    logger: Logger,
    leaseMs: number,
    onLost: (deliveryId: string) => void,
  ) {
    this.#store = store
    this.#runtime = runtime
    this.#logger = logger
    this.#leaseMs = leaseMs
    this.#onLost = onLost
  }

  add(deliveryId: string, token: string, until: number): void {
    this.#claims.set(deliveryId, { token, until })
    this.#arm()
  }

  remove(deliveryId: string): void {
    this.#claims.delete(deliveryId)
    if (this.#claims.size === 0) this.#disarm()
  }

  /** Not known to be lost; whether it still holds is another question. */
  has(deliveryId: string): boolean {
    return this.#claims.has(deliveryId)
  }

  /** Whether the claim certainly still holds, by the monotonic clock. */
  isValid(deliveryId: string): boolean {
    const claim = this.#claims.get(deliveryId)
    return claim !== undefined && this.#runtime.monotonicNow() < claim.until
  }

  close(): void {
    this.#claims.clear()
    this.#disarm()
  }

  /** Extends what has less than half its lease left. Also called for claims that are that old at commit. */
  async extendAging(): Promise<void> {
    if (this.#extending) return
    const now = this.#runtime.monotonicNow()
    const aging = [...this.#claims].filter(([, claim]) => claim.until - now < this.#leaseMs / 2)
    if (aging.length === 0) return
    this.#extending = true
    try {
      const asked = aging.map(([id, claim]) => ({ id, token: claim.token }))
      const lost = new Set(await this.#store.queue.extend(asked, this.#leaseMs))
      for (const [id, claim] of aging) {
        if (lost.has(id)) {
          this.#claims.delete(id)
          this.#onLost(id)
        } else {
          // Counted from before the statement was sent, so that the local deadline is never the later one.
          claim.until = now + this.#leaseMs
        }
      }
    } catch (error) {
      this.#logger.log('warn', 'hot claims could not be extended; tried again shortly', {
        error: String(error),
      })
    } finally {
      this.#extending = false
    }
  }

  #arm(): void {
    if (this.#timer !== null) return
    this.#timer = this.#runtime.schedule(
      Math.max(1, this.#leaseMs / 8),
      () => {
        this.#timer = null
        void this.extendAging().then(() => {
          if (this.#claims.size > 0) this.#arm()
        })
      },
      { background: true },
    )
  }

  #disarm(): void {
    this.#timer?.()
    this.#timer = null
  }
}
