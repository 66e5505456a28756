/** Another clock for one process: Debian's libfaketime, unpacked into the folder of the services and not installed. */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { findFolder } from '../../scripts/services/folder.ts'
import { debianUsr, installDebian } from '../../scripts/services/install/debian.ts'
import type { Site } from '../../scripts/services/service.ts'

/** Seconds to the environment of a process whose wall clock is shifted by them; its monotonic clock is not. */
export type Clock = (shiftSeconds: number) => Readonly<Record<string, string>>

const PACKAGE = 'libfaketime'
const LIBRARY = 'libfaketimeMT.so.1'

const findLibrary = (usr: string): string | null => {
  const lib = join(usr, 'lib')
  const paths = existsSync(lib) ? readdirSync(lib).map((name) => join(lib, name, 'faketime', LIBRARY)) : []
  return paths.find(existsSync) ?? null
}

const install = async (): Promise<string> => {
  const report = (text: string): void => console.error(text)
  const site: Site = {
    name: PACKAGE,
    folder: findFolder(report),
    home: '',
    port: 0,
    account: null,
    durable: true,
    portOf: () => 0,
    report,
  }
  await installDebian(site, 'bookworm', PACKAGE)
  const library = findLibrary(debianUsr(site, PACKAGE))
  if (library === null) throw new Error(`${PACKAGE} has no ${LIBRARY}`)
  return library
}

const clockOf =
  (library: string): Clock =>
  (shiftSeconds) => ({
    LD_PRELOAD: library,
    FAKETIME: `${shiftSeconds < 0 ? '' : '+'}${shiftSeconds}s`,
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    DONT_FAKE_MONOTONIC: '1',
  })

/** Node may be built so that the library does not reach it, or not start at all. */
const works = (clock: Clock): boolean => {
  const shift = 86_400
  const env = { ...process.env, ...clock(shift) }
  const { stdout } = spawnSync(process.execPath, ['-p', 'Date.now()'], { env, encoding: 'utf8' })
  return Math.abs(Number(stdout) - Date.now() - shift * 1_000) < 60_000
}

export const findClock = async (): Promise<Clock | string> => {
  try {
    const clock = clockOf(await install())
    return works(clock) ? clock : `${PACKAGE} does not change the clock of this Node`
  } catch (error) {
    return `${PACKAGE} cannot be had: ${(error as Error).message.split('\n')[0]}`
  }
}
