/**
 * A small disk of a run's own, in memory, that can be full: its size is set to what is used, and back. Where file
 * systems cannot be mounted there is none.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, statfsSync } from 'node:fs'

export interface Disk {
  readonly folder: string
  readonly sizeBytes: number
}

const MB = 1 << 20
/** A file system in memory has whole pages; a few are left, so that the size is never below what is used. */
const SLACK_BYTES = 64 * 1024

const mount = (...args: readonly string[]): string | null => {
  const { status, stderr, error } = spawnSync('mount', args, { encoding: 'utf8' })
  if (status === 0) return null
  return error?.message ?? (stderr.trim().split('\n')[0] || `mount ended with ${status}`)
}

/** The disk, or why there is none. */
export const mountDisk = (folder: string, sizeBytes: number): Disk | string => {
  mkdirSync(folder, { recursive: true, mode: 0o755 })
  const problem = mount('-t', 'tmpfs', '-o', `size=${sizeBytes},mode=755`, 'posthaste-chaos', folder)
  return problem ?? { folder, sizeBytes }
}

/** Lazily, because a driver may keep the file open for as long as its process lives. */
export const unmountDisk = ({ folder }: Disk): void => {
  const { status, stderr } = spawnSync('umount', ['--lazy', folder], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`the disk of the run is still mounted: ${stderr.trim()}`)
  rmSync(folder, { recursive: true, force: true })
}

const resize = ({ folder }: Disk, sizeBytes: number): string | null =>
  mount('-o', `remount,size=${sizeBytes}`, folder)

/** From now on nothing fits any more; or why that is not so. Somebody may have written more meanwhile. */
export const fillDisk = (disk: Disk): string | null => {
  const { blocks, bfree, bsize } = statfsSync(disk.folder)
  return resize(disk, (blocks - bfree) * bsize + SLACK_BYTES)
}

export const freeDisk = (disk: Disk): void => {
  const problem = resize(disk, disk.sizeBytes)
  if (problem !== null) throw new Error(`the disk of the run cannot be made larger again: ${problem}`)
}

/** Room for the server's own files and for what a run of so many minutes stores. */
export const diskBytes = (minutes: number): number => Math.round((768 + 48 * minutes) * MB)
