/**
 * Starts every example as its README says, with the packed package and on real databases, and compares what it prints.
 *
 *   npm run test:examples -- [--only NAME] [--built] [--install] [--json]
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { copyExample, install, link, pack } from './examples/kitchen.ts'
import { Program } from './examples/program.ts'
import { type Instructions, readInstructions } from './examples/readme.ts'
import { PRISMA_OFFLINE } from './prisma.ts'
import { heading, mustRun, ROOT } from './run.ts'
import { serviceUrls } from './services/index.ts'
import { choiceOption, runCommand } from './usage.ts'

const NAMES = readdirSync(join(ROOT, 'examples'), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .sort()

const HELP = `Usage: npm run test:examples -- [OPTIONS]

  --only NAME   one of ${NAMES.join(', ')}
  --built       dist is current: do not build
  --install     install from the registry, instead of linking what is installed here
  --json        the last line is { suite, passed, failed, examples: [{ name, ok, seconds, error }] }

Exit code: 0 all work, 1 one does not, 2 the command was not understood.
`

const SPEC = {
  only: { type: 'string' },
  built: { type: 'boolean', default: false },
  install: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

interface Result {
  readonly name: string
  readonly ok: boolean
  readonly seconds: number
  readonly error: string | null
}

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })

/** Calls `use` with the address of an empty database. */
const withDatabase = async (use: (url: string) => Promise<void>): Promise<void> => {
  const { 'postgres-new': server } = await serviceUrls(['postgres-new'])
  const name = `example_${randomBytes(6).toString('hex')}`
  const hand = new pg.Client({ connectionString: server })
  await hand.connect()
  try {
    await hand.query(`CREATE DATABASE ${name}`)
    const url = new URL(server)
    url.pathname = `/${name}`
    await use(url.href)
  } finally {
    await hand.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
    await hand.end()
  }
}

const follow = async (
  { prepare, start, meanwhile, output, needsKafka }: Instructions,
  home: string,
  given: { readonly url: string | null; readonly prepared: readonly string[] },
): Promise<void> => {
  const port = await freePort()
  const env = {
    ...process.env,
    ...PRISMA_OFFLINE,
    PORT: String(port),
    ...(given.url === null ? {} : { DATABASE_URL: given.url }),
    ...(needsKafka ? { KAFKA_URL: (await serviceUrls(['kafka'])).kafka } : {}),
  }
  for (const command of prepare) {
    if (!given.prepared.includes(command)) await new Program(command, home, env).endsWell()
  }
  const program = new Program(start, home, env)
  try {
    if (meanwhile.length > 0) await program.says(['Listening on'])
    for (const command of meanwhile) {
      const here = command.replaceAll('localhost:3000', `127.0.0.1:${port}`)
      await new Program(here, home, env).endsWell()
    }
    await program.says(output)
    if (meanwhile.length === 0) await program.endsWell()
    program.terminate()
    // npm makes a failure of a signal, whatever the program did.
    await program.ends()
  } finally {
    program.terminate('SIGKILL')
  }
}

const tryExample = async (name: string, folder: string, tarball: string, fetch: boolean): Promise<Result> => {
  const started = performance.now()
  let error: string | null = null
  try {
    const home = copyExample(name, folder)
    const instructions = readInstructions(join(home, 'README.md'))
    const prepared = ['npm install']
    if (fetch) install(home, tarball)
    else link(home, tarball)
    if (!instructions.needsPostgres) await follow(instructions, home, { url: null, prepared })
    else await withDatabase((url) => follow(instructions, home, { url, prepared }))
  } catch (problem) {
    error = (problem as Error).message
  }
  const seconds = Math.round((performance.now() - started) / 100) / 10
  console.log(`${error === null ? 'ok    ' : 'FAILED'} ${name.padEnd(24)} ${seconds} s`)
  if (error !== null) console.log(error)
  return { name, ok: error === null, seconds, error }
}

process.exitCode = await runCommand('test:examples', HELP, SPEC, async (values) => {
  const names = values.only === undefined ? NAMES : [choiceOption('only', values.only, NAMES)]
  if (!values.built) mustRun('tsdown', ['--log-level', 'warn'])
  heading('Examples')
  const folder = mkdtempSync(join(tmpdir(), 'posthaste-examples-'))
  const examples: Result[] = []
  try {
    const tarball = pack(folder)
    for (const name of names) examples.push(await tryExample(name, folder, tarball, values.install))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  const failed = examples.filter(({ ok }) => !ok).length
  const passed = examples.length - failed
  if (values.json) console.log(JSON.stringify({ suite: 'examples', passed, failed, examples }))
  return failed === 0 ? 0 : 1
})
