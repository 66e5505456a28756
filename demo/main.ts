/** `npm run demo`: one run of the shop, from options to exit code. */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ERROR_CODES, StoreError } from '../src/index.ts'
import { loadDriver } from '../src/stores/sqlite/drivers.ts'
import { Board } from './board.ts'
import { runCalm } from './calm.ts'
import { runCrash } from './crash.ts'
import { computeFigures, type Files } from './figures.ts'
import { type DemoOptions, HELP, parseOptions, UsageError } from './options.ts'
import { judge, printReport } from './report.ts'
import { openView } from './view.ts'

/** What a shell reports for a program that SIGPIPE ended. */
const ENDED_WITH_READER = 141
const BAD_OPTIONS = 2
/** As of the command line: what it needs is not there. */
const CANNOT_WORK = 3

const prepareFolder = (dir: string | null): { readonly files: Files; readonly clean: () => void } => {
  const folder = dir ?? mkdtempSync(join(tmpdir(), 'posthaste-demo-'))
  const files = { database: join(folder, 'shop.db'), calls: join(folder, 'calls.ndjson') }
  if (dir !== null) {
    if (existsSync(files.database) || existsSync(files.calls)) {
      throw new UsageError(`--dir ${dir} holds an earlier run already; name another folder or remove it`)
    }
    try {
      mkdirSync(dir, { recursive: true })
    } catch (error) {
      throw new UsageError(`--dir ${dir} cannot be made: ${(error as Error).message}`)
    }
  }
  writeFileSync(files.calls, '')
  return { files, clean: () => (dir === null ? rmSync(folder, { recursive: true, force: true }) : undefined) }
}

const run = async (options: DemoOptions): Promise<number> => {
  // Before the screen is drawn: without any of them there is nothing to show.
  await loadDriver(null)
  const { files, clean } = prepareFolder(options.dir)
  process.once('exit', clean)
  const board = new Board(options.events)
  const view = openView(board, process.stdout)
  // What `exit` does is enough: the cursor comes back, children end, the temporary folder goes.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(130))
  let crash: Awaited<ReturnType<typeof runCrash>> | null = null
  try {
    if (options.crash) crash = await runCrash(board, files, options)
    else await runCalm(board, files, options)
  } finally {
    view.close()
  }
  const elapsedMs = Math.round(board.elapsedMs)
  const figures = await computeFigures(files)
  const verdicts = judge(figures, crash)
  const colour = process.stdout.isTTY === true && !process.env.NO_COLOR
  printReport(
    figures,
    verdicts,
    { dir: options.dir, elapsedMs, colour, columns: process.stdout.columns },
    (line) => console.log(line),
  )
  if (options.json) {
    const { seed, events } = options
    console.log(JSON.stringify({ ...figures, ...crash, seed, events, elapsedMs }))
  }
  return verdicts.every(({ good }) => good) ? 0 : 1
}

/** Whoever reads may leave early, as `head` does. It ends as SIGPIPE would end it: 0 would be a verdict. */
const endWithReader = (error: NodeJS.ErrnoException): void => {
  if (error.code !== 'EPIPE') throw error
  process.exit(ENDED_WITH_READER)
}

/** For people, and with --json for programs too, in the words of the command line. */
const refuse = (text: string, code: string, message: string, exitCode: number): number => {
  console.error(text)
  // What cannot be read as options may still ask for this.
  if (process.argv.includes('--json')) console.log(JSON.stringify({ error: { code, message, exitCode } }))
  return exitCode
}

const main = async (): Promise<number> => {
  try {
    const options = parseOptions(process.argv.slice(2))
    if (options === null) {
      process.stdout.write(HELP)
      return 0
    }
    return await run(options)
  } catch (error) {
    if (error instanceof StoreError && error.code === ERROR_CODES.missingPeer)
      return refuse(`${error.message} [${error.code}]`, error.code, error.message, CANNOT_WORK)
    if (!(error instanceof UsageError)) throw error
    // The command line runs this as a program of its own, and says how it was called.
    const called = process.env.POSTHASTE_DEMO_CALLED ?? 'npm run demo -- --help'
    return refuse(`${error.message}\nSee ${called}`, 'USAGE', error.message, BAD_OPTIONS)
  }
}

process.stdout.on('error', endWithReader)
process.exitCode = await main()
