/** Programs that are shipped as npm packages. They are no dependencies of the project: only tests run them. */
import { existsSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { run } from '../command.ts'
import type { Site } from '../service.ts'
import { bringOnce } from './once.ts'

const folderOf = (site: Site, name: string, version: string): string =>
  join(site.folder, 'programs', `${name.replace(/[@/]+/g, '-').replace(/^-/, '')}-${version}`)

/** Packages cannot contain links, so this one lists them; its own script would need leave to run at installation. */
const createLinks = (root: string): void => {
  const list = join(root, 'native', 'pg-symlinks.json')
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]
  for (const { source, target } of links) {
    const path = join(root, target)
    if (!existsSync(path)) symlinkSync(relative(dirname(path), join(root, source)), path)
  }
}

export const npmPrograms = (site: Site, name: string, version: string): string =>
  join(folderOf(site, name, version), 'node_modules', name, 'native', 'bin')

export const installNpm = async (site: Site, name: string, version: string): Promise<void> => {
  const folder = folderOf(site, name, version)
  await bringOnce(folder, async (fresh) => {
    site.report(`installing ${name}@${version} from npm`)
    const flags = ['--no-save', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
    const args = ['install', '--prefix', fresh, ...flags, `${name}@${version}`]
    await run({ program: 'npm', args }, { cwd: fresh })
    createLinks(join(fresh, 'node_modules', name))
  })
}
