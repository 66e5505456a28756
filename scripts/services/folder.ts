/** Where programs and data lie, and as whom servers run. */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, lstatSync, mkdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { ROOT } from '../run.ts'
import { type Account, ServicesError } from './service.ts'

/** As root, servers run as `nobody`, which every Linux has; else as whoever starts them. */
const findAccount = (): Account | null => {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return null
  const line = /^nobody:[^:]*:(\d+):(\d+):/m.exec(readFileSync('/etc/passwd', 'utf8'))
  if (!line)
    throw new ServicesError('As root there must be an account `nobody`: servers refuse to run as root.')
  return { uid: Number(line[1]), gid: Number(line[2]) }
}

export const account: Account | null = findAccount()

/** One project, one name, also for containers. */
export const projectId = (path = ROOT): string =>
  createHash('sha256').update(resolve(path)).digest('hex').slice(0, 10)

const create = (folder: string): string => {
  mkdirSync(folder, { recursive: true, mode: 0o755 })
  return folder
}

const canEnter = (folder: string): boolean =>
  account === null || spawnSync('test', ['-x', folder], { cwd: '/', ...account }).status === 0

const fallback = (): string => {
  const folder = create(join(tmpdir(), `posthaste-services-${projectId()}`))
  const { uid } = lstatSync(folder)
  if (uid !== process.getuid?.())
    throw new ServicesError(
      `${folder} belongs to somebody else. Set POSTHASTE_SERVICES_DIR to another folder.`,
    )
  chmodSync(folder, 0o755)
  return folder
}

export const findFolder = (report: (text: string) => void): string => {
  const chosen = process.env.POSTHASTE_SERVICES_DIR
  const folder = create(resolve(chosen || join(ROOT, '.services')))
  if (canEnter(folder)) return folder
  if (chosen)
    throw new ServicesError(
      `POSTHASTE_SERVICES_DIR=${chosen}: servers run as nobody, who cannot enter it; choose another.`,
    )
  const instead = fallback()
  report(`Servers run as nobody, who cannot enter ${folder}; using ${instead}.`)
  return instead
}
