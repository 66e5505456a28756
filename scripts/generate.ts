/**
 * Writes what follows from something else. Tables of commands and settings go into the documents; and it compiles the numbered `.sql` files of each store into a module beside them, because the library reads no
 * files at run time (bundlers would lose them). `--check` changes nothing and fails if a module is out of date.
 *
 *   src/stores/<store>/migrations/0001_create_outbox.sql … → src/stores/<store>/migrations/migrations.generated.ts
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { cliReference, settingsReference } from './cli-reference.ts'
import { ROOT } from './run.ts'

const NAME = /^(\d{4})_([a-z0-9_]+)\.sql$/

const migrationFolders = (): string[] => {
  const stores = join(ROOT, 'src', 'stores')
  if (!existsSync(stores)) return []
  return readdirSync(stores)
    .map((store) => join(stores, store, 'migrations'))
    .filter((folder) => existsSync(folder) && readdirSync(folder).some((file) => file.endsWith('.sql')))
}

/** Numbers must be 1, 2, 3 …: a gap or a double would mean different schemas in different places. */
const moduleOf = (folder: string): string => {
  const files = readdirSync(folder)
    .filter((file) => file.endsWith('.sql'))
    .sort()
  const items = files.map((file, index) => {
    const [, number, name] = NAME.exec(file) ?? []
    if (number === undefined || name === undefined || Number(number) !== index + 1) {
      const expected = String(index + 1).padStart(4, '0')
      throw new Error(
        `${relative(ROOT, join(folder, file))}: expected a name like ${expected}_add_something.sql`,
      )
    }
    const sql = readFileSync(join(folder, file), 'utf8')
    const literal = sql.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('${', '\\${')
    return `  {\n    version: ${index + 1},\n    name: '${name}',\n    sql: \`${literal}\`,\n  },\n`
  })
  const header = '// Made by `npm run generate` from the .sql files in this folder; change those instead.\n'
  return `${header}export const migrations = [\n${items.join('')}] as const\n`
}

/** The page with what stands between its marks replaced. */
const pageWith = (page: string, name: string, text: string): string => {
  const path = join(ROOT, page)
  const marks = new RegExp(`(<!-- ${name} -->\\n)[\\s\\S]*?(\\n<!-- end of ${name} -->)`)
  const current = readFileSync(path, 'utf8')
  if (!marks.test(current)) throw new Error(`${page} has no marks for ${name}`)
  return current.replace(marks, (_, begin: string, end: string) => `${begin}\n${text}\n${end}`)
}

const checkOnly = process.argv.includes('--check')
let stale = 0
const wantedFiles: readonly (readonly [string, string])[] = [
  ...migrationFolders().map((folder) => [join(folder, 'migrations.generated.ts'), moduleOf(folder)] as const),
  [join(ROOT, 'docs/cli.md'), pageWith('docs/cli.md', 'commands', cliReference())],
  [join(ROOT, 'docs/configuration.md'), pageWith('docs/configuration.md', 'settings', settingsReference())],
]
for (const [path, wanted] of wantedFiles) {
  const current = existsSync(path) ? readFileSync(path, 'utf8') : null
  if (current === wanted) continue
  if (checkOnly) {
    stale += 1
    console.error(`${relative(ROOT, path)} is out of date: run \`npm run generate\` and commit the result.`)
  } else {
    writeFileSync(path, wanted)
    console.log(`Wrote ${relative(ROOT, path)}`)
  }
}
process.exitCode = stale === 0 ? 0 : 1
