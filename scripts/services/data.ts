/** A service's files: made once, and in one step, so that what a broken start left is never taken for complete. */
import {
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Site } from './service.ts'

/** Settings that processes and containers share. */
const FILES = join(import.meta.dirname, 'files')

export const dataOf = (site: Site): string => join(site.home, 'data')

/** Gives what we wrote as root to the account that servers run as. */
export const giveToAccount = (site: Site, path: string): void => {
  if (site.account) chownSync(path, site.account.uid, site.account.gid)
}

/** The account may not be able to read the project. */
export const copyFromFiles = (site: Site, name: string): string => {
  const path = join(site.home, name)
  copyFileSync(join(FILES, name), path)
  giveToAccount(site, path)
  return path
}

/** A file of settings with marks for what differs between processes and containers (there `compose.yaml` replaces them). */
export const fillIn = (site: Site, name: string, marks: Readonly<Record<string, string>>): string => {
  let text = readFileSync(join(FILES, name), 'utf8')
  for (const [mark, value] of Object.entries(marks)) text = text.replace(mark, () => value)
  const path = join(site.home, name)
  writeFileSync(path, text)
  giveToAccount(site, path)
  return path
}

export const createHome = (site: Site): void => {
  mkdirSync(site.home, { recursive: true, mode: 0o755 })
  giveToAccount(site, site.home)
}

export const initialise = async (site: Site, fill: (folder: string) => Promise<void>): Promise<void> => {
  const data = dataOf(site)
  if (existsSync(data)) return
  site.report('creating its data')
  const fresh = `${data}.new`
  rmSync(fresh, { recursive: true, force: true })
  mkdirSync(fresh, { mode: 0o700 })
  giveToAccount(site, fresh)
  await fill(fresh)
  renameSync(fresh, data)
}
