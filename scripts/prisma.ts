/** Prisma's command without its network: it is only asked to generate. */
import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

/** The command looks for an engine of the migrations, which generating does not use, and would download it. */
export const PRISMA_OFFLINE = {
  PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
  PRISMA_HIDE_UPDATE_MESSAGE: '1',
  CHECKPOINT_DISABLE: '1',
}

/** Writes the client of the `schema.prisma` in this folder. It must be inside the project, to find Prisma's runtime. */
export const generatePrisma = async (folder: string): Promise<void> => {
  const manifest = createRequire(import.meta.url).resolve('prisma/package.json')
  const command = join(dirname(manifest), 'build', 'index.js')
  await promisify(execFile)(
    process.execPath,
    [command, 'generate', '--schema', join(folder, 'schema.prisma')],
    { cwd: folder, env: { ...process.env, ...PRISMA_OFFLINE } },
  )
}
