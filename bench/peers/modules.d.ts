/** The few members that are used of packages which only bench/peers/package.json installs. */
declare module 'graphile-worker' {
  import type { EventEmitter } from 'node:events'
  import type { Pool } from 'pg'

  export class Logger {
    constructor(factory: (scope: object) => (level: string, message: string) => void)
  }

  interface WorkerSettings {
    readonly concurrentJobs: number
    readonly localQueue: { readonly size: number }
    readonly completeJobBatchDelay: number
    readonly failJobBatchDelay: number
  }

  interface SharedOptions {
    readonly pgPool: Pool
    readonly logger: Logger
  }

  export const run: (
    options: SharedOptions & {
      readonly events: EventEmitter
      readonly noHandleSignals: boolean
      readonly taskList: Readonly<Record<string, (payload: unknown) => void>>
      readonly preset: { readonly worker: WorkerSettings }
    },
  ) => Promise<{ stop(): Promise<void> }>

  export const runMigrations: (options: SharedOptions) => Promise<void>
}

declare module 'pg-boss' {
  interface Database {
    executeSql(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>
  }

  interface Job {
    readonly data: unknown
  }

  export class PgBoss {
    constructor(options: {
      readonly connectionString: string
      readonly max: number
      readonly schedule: boolean
      readonly useListenNotify: boolean
    })
    on(event: 'error', listener: (error: Error) => void): void
    start(): Promise<void>
    stop(options: { readonly graceful: boolean }): Promise<void>
    createQueue(
      name: string,
      options: { readonly notify: boolean; readonly policy: 'standard' | 'key_strict_fifo' },
    ): Promise<void>
    send(
      name: string,
      data: unknown,
      options: { readonly db: Database; readonly singletonKey?: string },
    ): Promise<string | null>
    insert(
      name: string,
      jobs: readonly { readonly data: unknown; readonly singletonKey?: string }[],
      options: { readonly db: Database },
    ): Promise<unknown>
    work(
      name: string,
      options: {
        readonly batchSize: number
        readonly burstWhenBatchFull: boolean
        readonly localConcurrency: number
      },
      handler: (jobs: readonly Job[]) => Promise<void>,
    ): Promise<string>
  }
}
