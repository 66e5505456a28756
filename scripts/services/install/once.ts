/** Programs are brought once, in one step, by whoever wants them first. */
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { run } from '../command.ts'
import { withLock } from '../lock.ts'

/** `fill` gets an empty folder; it becomes the real one when everything is there. */
export const bringOnce = async (folder: string, fill: (fresh: string) => Promise<void>): Promise<void> => {
  if (existsSync(folder)) return
  mkdirSync(dirname(folder), { recursive: true })
  await withLock(`${folder}.lock`, async () => {
    if (existsSync(folder)) return
    const fresh = `${folder}.new`
    rmSync(fresh, { recursive: true, force: true })
    mkdirSync(fresh)
    await fill(fresh)
    await run({ program: 'chmod', args: ['-R', 'a+rX', fresh] })
    renameSync(fresh, folder)
  })
}
