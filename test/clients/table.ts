/** The table of libraries as docs/clients.md has it. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CLIENT_TARGETS } from './targets.ts'

const DATABASES = { postgres: 'PostgreSQL', mariadb: 'MariaDB', mysql: 'MySQL', sqlite: 'SQLite' }

const versionOf = (name: string): string => {
  const manifest = readFileSync(
    join(import.meta.dirname, '..', '..', 'node_modules', name, 'package.json'),
    'utf8',
  )
  return (JSON.parse(manifest) as { version: string }).version
}

export const libraryTable = (): string => {
  const rows = Object.entries(CLIENT_TARGETS).map(([name, target]) => {
    const databases = target.databases.map((database) => DATABASES[database]).join(', ')
    const { says } = target
    return `| \`posthaste/clients/${name}\` | \`${says.function}\` | ${target.package} ${versionOf(target.package)} | ${databases} | ${says.commitHooks ? 'yes' : 'no'} | ${says.nested} |`
  })
  return [
    '| import | function | tested with | on | commit hooks | nested |',
    '| --- | --- | --- | --- | --- | --- |',
    ...rows,
  ].join('\n')
}
