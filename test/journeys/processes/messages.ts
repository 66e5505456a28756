/** What parent and worker say to each other. */
export interface WorkerOptions {
  readonly file: string
  readonly ledger: string
  readonly start?: boolean
  readonly concurrency?: number
  readonly maxAttempts?: number
  /** Each handler takes this long. */
  readonly handlerMs?: number
  /** Handlers wait for a message of the parent. */
  readonly hold?: boolean
  /** The event that ends the process which hears it. */
  readonly poison?: number
  /** The event at which the process stops itself, until somebody continues it. */
  readonly stopAt?: number
  readonly dieAfterCommit?: boolean
}

export type FromWorker =
  | { readonly kind: 'ready' | 'stopping' }
  | { readonly kind: 'begun' | 'heard' | 'published'; readonly n: number }
  /** The outcome is in the database. */
  | { readonly kind: 'settled'; readonly n: number; readonly outcome: string }
  | { readonly kind: 'warned'; readonly message: string }

export type ToWorker =
  | { readonly kind: 'publish'; readonly from: number; readonly to: number; readonly keys: number }
  | { readonly kind: 'go' }
