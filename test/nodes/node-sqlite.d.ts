/**
 * The part of `node:sqlite` that tests use. The types of Node 20, which the library is checked against, do not
 * have this module, and with newer types the check would no longer see a call that Node 20 lacks.
 */
declare module 'node:sqlite' {
  type SQLInputValue = null | number | bigint | string | NodeJS.ArrayBufferView
  type SQLOutputValue = null | number | bigint | string | Uint8Array

  interface DatabaseSyncOptions {
    readonly open?: boolean
    readonly readOnly?: boolean
    readonly enableForeignKeyConstraints?: boolean
    readonly timeout?: number
  }

  interface StatementResultingChanges {
    readonly changes: number | bigint
    readonly lastInsertRowid: number | bigint
  }

  class StatementSync {
    private constructor()
    run(...parameters: SQLInputValue[]): StatementResultingChanges
    get(...parameters: SQLInputValue[]): Record<string, SQLOutputValue> | undefined
    all(...parameters: SQLInputValue[]): Record<string, SQLOutputValue>[]
    iterate(...parameters: SQLInputValue[]): NodeJS.Iterator<Record<string, SQLOutputValue>>
    setReadBigInts(enabled: boolean): void
    setReturnArrays(enabled: boolean): void
  }

  class DatabaseSync implements Disposable {
    constructor(path: string, options?: DatabaseSyncOptions)
    readonly isOpen: boolean
    readonly isTransaction: boolean
    exec(sql: string): void
    prepare(sql: string): StatementSync
    open(): void
    close(): void
    [Symbol.dispose](): void
  }
}
