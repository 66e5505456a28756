/** What every tool has to do with the file that docs/migrations.md gives it. */
import { rmSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { newFolder } from '../docs/code-blocks.ts'
import {
  COMPLETE,
  type DatabaseName,
  type EmptyDatabase,
  emptyDatabase,
  expectDelivery,
  expectNoTables,
} from './databases.ts'

export interface Tool {
  /** Runs what it has not run yet, and says what that was. */
  migrate(): Promise<readonly string[]>
  /** Changes the database to what the models of the application say, which is one table `orders`. */
  synchronize?(): Promise<unknown>
  /** What it would change, as text. */
  compare?(): Promise<string>
  /** The same without the settings of the page, where it needs any. */
  compareUnprotected?(): Promise<string>
  rollBack?(): Promise<unknown>
  /** What there is after its migration; everything unless said. */
  readonly makes?: readonly string[]
  close(): Promise<unknown>
}

export type OpenTool = (database: EmptyDatabase, folder: string) => Promise<Tool>

const OURS = /outbox|deliver/i

export const describeTool = (name: string, databases: readonly DatabaseName[], open: OpenTool): void => {
  const closing: (() => unknown)[] = []
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close()
  })

  describe(name, () => {
    it.each(databases)(
      'migrates %s, leaves the tables alone, and takes them away again',
      { timeout: 600_000 },
      async (which) => {
        const database = await emptyDatabase(which)
        closing.push(() => database.dispose())
        const folder = newFolder()
        closing.push(() => rmSync(folder, { recursive: true, force: true }))
        await expectNoTables(database)
        const tool = await open(database, folder)
        closing.push(() => tool.close())

        const { makes = COMPLETE } = tool
        expect(await tool.migrate()).toHaveLength(1)
        expect(await database.present()).toEqual(makes)
        await expectDelivery(database)

        if (tool.synchronize !== undefined) {
          await tool.synchronize()
          expect(await database.others()).toContain('orders')
        }
        if (tool.compareUnprotected !== undefined) expect(await tool.compareUnprotected()).toMatch(OURS)
        if (tool.compare !== undefined) expect(await tool.compare()).not.toMatch(OURS)
        expect(await tool.migrate()).toEqual([])
        expect(await database.present()).toEqual(makes)
        await expectDelivery(database)

        if (tool.rollBack === undefined) return
        await tool.rollBack()
        await expectNoTables(database)
        expect(await tool.migrate()).toHaveLength(1)
        await expectDelivery(database)
      },
    )
  })
}
