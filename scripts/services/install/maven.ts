/** Programs of Java, from the repository of Maven, with all the libraries they need. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from '../command.ts'
import type { Command, Site } from '../service.ts'
import { bringOnce } from './once.ts'

/** `group:name:version`. */
export type Artifact = `${string}:${string}:${string}`

const COPY = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies'

const folderOf = (site: Pick<Site, 'folder'>, name: string): string => join(site.folder, 'programs', name)

const element = (name: string, content: string): string => `<${name}>${content}</${name}>`

const dependency = (artifact: Artifact): string => {
  const [group = '', name = '', version = ''] = artifact.split(':')
  return element(
    'dependency',
    element('groupId', group) + element('artifactId', name) + element('version', version),
  )
}

const projectOf = (artifacts: readonly Artifact[]): string =>
  element(
    'project',
    [
      element('modelVersion', '4.0.0'),
      element('groupId', 'posthaste'),
      element('artifactId', 'services'),
      element('version', '1'),
      element('packaging', 'pom'),
      element('dependencies', artifacts.map(dependency).join('')),
    ].join(''),
  )

/** `name` is the folder's, and so has to change with the versions. */
export const installMaven = async (
  site: Pick<Site, 'folder' | 'report'>,
  name: string,
  artifacts: readonly Artifact[],
): Promise<void> => {
  const folder = folderOf(site, name)
  await bringOnce(folder, async (fresh) => {
    site.report(`installing ${name} from Maven's repository`)
    writeFileSync(join(fresh, 'pom.xml'), projectOf(artifacts))
    const args = ['-q', '-B', COPY, '-DincludeScope=runtime', `-DoutputDirectory=${join(fresh, 'jars')}`]
    await run({ program: 'mvn', args }, { cwd: fresh })
  })
}

/** Runs a class of them; `flags` are for the machine of Java. */
export const javaCommand = (
  site: Pick<Site, 'folder'>,
  name: string,
  flags: readonly string[],
  main: string,
  args: readonly string[],
): Command => ({
  program: 'java',
  args: [...flags, '-cp', join(folderOf(site, name), 'jars', '*'), main, ...args],
})
