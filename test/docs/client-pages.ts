/** The programs of docs/clients, one per page, run as a reader would: each in a process and a folder of its own. */
import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { newFolder, tsxEnvironment, writePage } from './code-blocks.ts'

export const clientPage = (name: string): string => `docs/clients/${name}.md`

interface Surroundings {
  /** Where packages are looked for; the repository itself unless said. */
  readonly parent?: string
  readonly databaseUrl?: string
}

interface Ran {
  readonly printed: string
  /** What the page says that it prints. */
  readonly said: string | null
}

/** Rejects when the program fails, or does not end by itself. */
export const runClientPage = async (
  name: string,
  { parent, databaseUrl }: Surroundings = {},
): Promise<Ran> => {
  const folder = newFolder(parent)
  try {
    const examples = await writePage(clientPage(name), folder)
    const program = examples.find(({ flags }) => flags.includes('run'))
    if (program === undefined) throw new Error(`the page of ${name} has no program`)
    const env = {
      ...process.env,
      ...tsxEnvironment(folder),
      ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }),
    }
    const args = ['--import', 'tsx', program.file]
    const options = { cwd: dirname(program.file), env, timeout: 600_000 }
    const { stdout } = await promisify(execFile)(process.execPath, args, options)
    return { printed: stdout, said: program.output }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
