/** What a receiver is told while it works on an attempt: when to stop, and that the attempt is over. */

export interface ReceiveContext {
  readonly signal: AbortSignal
  /** The attempt has ended, or nobody waits for its end any more. Nothing new may begin for it. */
  readonly over: boolean
}

/** Tells everything under way to stop. No AbortSignal: Node takes more than ten listeners on one for a leak. */
export class Stopping {
  readonly #controllers = new Set<AbortController>()
  #reason: { readonly error: unknown } | null = null
  #abandoned = false

  /** Why everything was told to stop; null while nothing was. */
  get reason(): { readonly error: unknown } | null {
    return this.#reason
  }

  get abandoned(): boolean {
    return this.#abandoned
  }

  /** Whoever hears it is still waited for, and may come to its end. */
  abort(error: unknown): void {
    this.#reason ??= { error }
    for (const controller of this.#controllers) controller.abort(error)
    this.#controllers.clear()
  }

  /** What is still under way is not waited for any more. */
  abandon(): void {
    this.#abandoned = true
  }

  attach(controller: AbortController): void {
    if (this.#reason === null) this.#controllers.add(controller)
    else controller.abort(this.#reason.error)
  }

  detach(controller: AbortController): void {
    this.#controllers.delete(controller)
  }
}

/** Most handlers never look at the signal, and a controller per delivery is not free. */
export class LazyContext implements ReceiveContext {
  readonly #stopping: Stopping
  #controller: AbortController | null = null
  #reason: { readonly error: unknown } | null = null
  #ended = false

  constructor(stopping: Stopping) {
    this.#stopping = stopping
  }

  /**
   * It says the same whenever it is first looked at. After the end that is how the attempt ended: work that a handler
   * left behind is not told of a stop that comes later, because nobody would wait for it, and a signal that waited for
   * one would be kept for as long as the process lives.
   */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      const controller = new AbortController()
      this.#controller = controller
      if (this.#reason) controller.abort(this.#reason.error)
      else if (!this.#ended) this.#stopping.attach(controller)
    }
    return this.#controller.signal
  }

  get over(): boolean {
    return this.#ended || this.#stopping.abandoned
  }

  abort(error: unknown): void {
    this.#reason = { error }
    this.#controller?.abort(error)
  }

  /** However the attempt ended: whoever is told to stop from here on is somebody else. */
  end(): void {
    this.#ended = true
    this.#reason ??= this.#stopping.reason
    if (this.#controller) this.#stopping.detach(this.#controller)
  }
}
