/**
 * Programs of Debian packages, unpacked with all the libraries they need into a folder of ours and run from there by
 * the loader that came with them. So a package may be of another release than the machine, nothing is installed on the
 * machine, no server starts by itself, and root is not needed.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from '../command.ts'
import { withLock } from '../lock.ts'
import { type Command, ServicesError, type Site } from '../service.ts'
import { bringOnce } from './once.ts'

export type Suite = 'bookworm' | 'sid'

export const DEBIAN_KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
/** Packages depend on these for their installation scripts, which we do not run. */
const NOT_NEEDED = ['adduser', 'debconf', 'lsb-base', 'perl', 'postgresql-common']

const MACHINES: Readonly<Record<string, { debian: string; libraries: string; loader: string }>> = {
  x64: { debian: 'amd64', libraries: 'x86_64-linux-gnu', loader: 'ld-linux-x86-64.so.2' },
  arm64: { debian: 'arm64', libraries: 'aarch64-linux-gnu', loader: 'ld-linux-aarch64.so.1' },
}

const machine = (): (typeof MACHINES)[string] => {
  const found = MACHINES[process.arch]
  if (!found)
    throw new ServicesError(`Debian packages are used on x64 and arm64 only, not on ${process.arch}.`)
  return found
}

/** The mirrors in a machine's list of sources, in either of the two formats, apart from the one for security. */
export const mirrorsIn = (text: string): string[] =>
  [...text.matchAll(/^(?:URIs:\s*|deb\s+(?:\[[^\]]*\]\s*)?)(\S+)/gm)]
    .flatMap(([, uri]) => uri ?? [])
    .filter((uri) => /^https?:/.test(uri) && !uri.includes('security'))

const findMirror = (): string => {
  const parts = '/etc/apt/sources.list.d'
  const files = existsSync(parts)
    ? readdirSync(parts).flatMap((name) => (/\.(list|sources)$/.test(name) ? [join(parts, name)] : []))
    : []
  const texts = ['/etc/apt/sources.list', ...files]
    .filter(existsSync)
    .map((file) => readFileSync(file, 'utf8'))
  const mirrors = texts.flatMap(mirrorsIn)
  const mirror = mirrors.find((uri) => /\/debian\/?$/.test(uri))
  if (mirror !== undefined) return mirror
  throw new ServicesError(
    'No source of Debian packages is in /etc/apt; add one, or name the server by its variable.',
  )
}

const assumed = (name: string): string =>
  [
    `Package: ${name}`,
    'Status: install ok installed',
    'Version: 9999',
    `Architecture: ${machine().debian}`,
    'Multi-Arch: allowed',
    'Maintainer: none',
    'Description: not needed\n\n',
  ].join('\n')

/** Everything that apt reads and writes, away from the machine's own; the machine's proxies still count. */
const writeAptFiles = (apt: string, suite: Suite): void => {
  mkdirSync(join(apt, 'lists', 'partial'), { recursive: true })
  writeFileSync(
    join(apt, 'sources.list'),
    `deb [signed-by=${DEBIAN_KEYRING}] ${findMirror()} ${suite} main\n`,
  )
  writeFileSync(join(apt, 'status'), NOT_NEEDED.map(assumed).join(''))
  const settings = {
    'Dir::State': apt,
    'Dir::State::lists': join(apt, 'lists'),
    'Dir::State::status': join(apt, 'status'),
    'Dir::Cache': apt,
    'Dir::Etc::sourcelist': join(apt, 'sources.list'),
    'Dir::Etc::sourceparts': '-',
    'Dir::Log': apt,
    'Acquire::Languages': 'none',
    'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled': 'false',
    'Acquire::Retries': '3',
    // A mirror may be some days behind; what it has must still be signed.
    'Acquire::Check-Valid-Until': 'false',
    'APT::Install-Recommends': 'false',
    'APT::Sandbox::User': 'root',
    'Debug::NoLocking': '1',
  }
  const lines = Object.entries(settings).map(([name, value]) => `${name} "${value}";\n`)
  writeFileSync(join(apt, 'apt.conf'), lines.join(''))
}

const folderOf = (site: Pick<Site, 'folder'>, packageName: string): string =>
  join(site.folder, 'programs', packageName)

/** Reading what a mirror has takes longer than most packages do, so they share it; a mirror changes, so not for long. */
const LISTS_MS = 60 * 60_000

/** Brings the package and all that it needs into a folder. */
const download = async (
  site: Pick<Site, 'folder'>,
  suite: Suite,
  packageName: string,
  archives: string,
): Promise<void> => {
  const apt = join(site.folder, 'programs', `apt-${suite}`)
  const read = join(apt, 'read')
  const env = { APT_CONFIG: join(apt, 'apt.conf'), DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' }
  mkdirSync(join(archives, 'partial'), { recursive: true })
  await withLock(`${apt}.lock`, async () => {
    const since = statSync(read, { throwIfNoEntry: false })?.mtimeMs ?? 0
    if (Date.now() - since > LISTS_MS) {
      rmSync(apt, { recursive: true, force: true })
      writeAptFiles(apt, suite)
      await run({ program: 'apt-get', args: ['update', '-qq', '--error-on=any'] }, { env })
      writeFileSync(read, '')
    }
    const into = ['-o', `Dir::Cache::archives=${archives}`]
    await run(
      { program: 'apt-get', args: [...into, 'install', '-y', '--download-only', packageName] },
      { env },
    )
  })
}

export const installDebian = async (
  site: Pick<Site, 'folder' | 'report'>,
  suite: Suite,
  packageName: string,
): Promise<void> => {
  const folder = folderOf(site, packageName)
  await bringOnce(folder, async (fresh) => {
    site.report(`installing ${packageName} of Debian ${suite}`)
    const archives = `${folder}.debs`
    rmSync(archives, { recursive: true, force: true })
    await download(site, suite, packageName, archives)
    for (const name of readdirSync(archives).filter((each) => each.endsWith('.deb')))
      await run({ program: 'dpkg-deb', args: ['-x', join(archives, name), fresh] })
    rmSync(archives, { recursive: true, force: true })
  })
}

/** The folder that the package knows as `/usr`. */
export const debianUsr = (site: Pick<Site, 'folder'>, packageName: string): string =>
  join(folderOf(site, packageName), 'usr')

/** Runs a program of the package with the package's own loader and libraries. */
export const debianCommand = (
  site: Pick<Site, 'folder'>,
  packageName: string,
  program: string,
  args: readonly string[],
): Command => {
  const { libraries, loader } = machine()
  const folder = folderOf(site, packageName)
  const paths = ['lib', 'usr/lib'].map((lib) => join(folder, lib, libraries))
  const own = paths.map((path) => join(path, loader)).find(existsSync)
  if (!own) throw new ServicesError(`${folder} is not complete. Delete it, and it will be installed anew.`)
  return { program: own, args: ['--library-path', paths.join(':'), join(folder, program), ...args] }
}
