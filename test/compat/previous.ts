/** The build of the previous release, unpacked where it finds the drivers that these sources use. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { ROOT } from '../../scripts/run.ts'

const HOME = join(ROOT, 'test', 'compat')
const UNPACKED = join(ROOT, '.cache', 'builds')

interface Release {
  readonly file: string
  readonly version: string
  readonly commit: string
}

export const release = JSON.parse(readFileSync(join(HOME, 'release.json'), 'utf8')) as Release

export const RELEASE_FILE = join(HOME, release.file)

/** The folder of a packed build. Unpacked once; who comes at the same time makes the same, and one of them stays. */
export const unpack = (file: string): string => {
  const hash = createHash('sha256').update(readFileSync(file)).digest('hex').slice(0, 16)
  const folder = join(UNPACKED, hash)
  if (existsSync(folder)) return folder
  mkdirSync(UNPACKED, { recursive: true })
  const fresh = mkdtempSync(join(UNPACKED, 'fresh-'))
  try {
    execFileSync('tar', ['-xzf', resolve(file), '-C', fresh], { stdio: ['ignore', 'ignore', 'pipe'] })
    renameSync(join(fresh, 'package'), folder)
  } catch (error) {
    if (!existsSync(folder)) throw error
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
  return folder
}

export const previousBuild = (): string => unpack(RELEASE_FILE)
