/** The table of libraries as docs/clients.md has it. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CLIENT_TARGETS, type ClientTarget } from './targets.ts'

const DATABASES = {
  postgres: 'PostgreSQL',
  pglite: 'PGlite',
  mariadb: 'MariaDB',
  mysql: 'MySQL',
  sqlite: 'SQLite',
}

const readJson = <T>(...path: readonly string[]): T =>
  JSON.parse(readFileSync(join(import.meta.dirname, '..', '..', ...path), 'utf8')) as T

interface NodesManifest {
  readonly dependencies: Readonly<Record<string, string>>
  readonly optionalDependencies: Readonly<Record<string, string>>
}

/** With the Node where it runs on a newer one only, and of what comes with Node that alone. */
const testedWith = ({ package: name, node }: ClientTarget): string => {
  if (node === null) {
    return `${name} ${readJson<{ version: string }>('node_modules', name, 'package.json').version}`
  }
  const { dependencies, optionalDependencies } = readJson<NodesManifest>('test', 'nodes', 'package.json')
  const spec = optionalDependencies[`node${node}-linux-x64`] ?? ''
  return [
    ...(dependencies[name] === undefined ? [] : [`${name} ${dependencies[name]}`]),
    `Node ${spec.split('@').at(-1)}`,
  ].join(', ')
}

export const libraryTable = (): string => {
  const rows = Object.entries(CLIENT_TARGETS).map(([name, target]) => {
    const databases = target.databases.map((database) => DATABASES[database]).join(', ')
    const { says } = target
    return `| [\`posthaste/clients/${name}\`](clients/${name}.md) | \`${says.function}\` | ${testedWith(target)} | ${databases} | ${says.commitHooks ? 'yes' : 'no'} | ${says.nested} |`
  })
  return [
    '| client and its page | function | tested with | on | commit hooks | nested |',
    '| --- | --- | --- | --- | --- | --- |',
    ...rows,
  ].join('\n')
}
