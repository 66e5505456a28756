/** Runs commands for the scripts here, with headings, and without a shell between. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

export const ROOT = join(import.meta.dirname, '..')

/** Arguments of a Node that runs a file of ours, for those who start many: it starts faster than by tsx. */
export const TYPESCRIPT: readonly string[] = [
  '--import',
  pathToFileURL(join(ROOT, 'scripts', 'typescript.mjs')).href,
]

export const heading = (text: string): void => {
  console.log(`\n── ${text} ${'─'.repeat(Math.max(0, 76 - text.length))}`)
}

/** The command's exit code; its output goes straight to ours. */
export const run = (command: string, args: readonly string[], cwd = ROOT): number => {
  // Tools of the project come before others of the same name, also when npm did not start us.
  const PATH = `${join(ROOT, 'node_modules', '.bin')}:${process.env.PATH ?? ''}`
  const { status, error } = spawnSync(command, args, { cwd, stdio: 'inherit', env: { ...process.env, PATH } })
  if (error) console.error(`${command}: ${error.message}`)
  return status ?? 1
}

export const mustRun = (command: string, args: readonly string[], cwd = ROOT): void => {
  const code = run(command, args, cwd)
  if (code !== 0) {
    console.error(`\nFailed with code ${code}: ${[command, ...args].join(' ')}`)
    process.exit(code)
  }
}
