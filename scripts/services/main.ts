/**
 * Real databases and brokers for tests: `npm run services -- up|down|status|env|kill [name…]`. Progress goes to standard error,
 * results to standard output, so that `eval "$(npm run -s services -- env)"` works.
 */
import { parseArgs } from 'node:util'
import { endWithReader } from '../usage.ts'
import { serviceOf } from './catalogue.ts'
import { chooseEngine } from './choose-engine.ts'
import { type Engine, NAMES, type ServiceStatus } from './engine.ts'
import { ServicesError } from './service.ts'

const USAGE = `Usage: npm run services -- COMMAND [NAME…] [--json]

  up       install, start and wait until ready, and likewise what they need
  down     stop; with --data also delete what they stored
  status   what runs
  env      lines for a shell with the addresses of what runs
  kill     end one at once, as a crash would; \`up\` brings it back on the same data

Names: ${NAMES.join(', ')}. None: all.
NAME@LABEL is another server of that kind, with data of its own. --json: the last line is one JSON object.
Exit code: 0 done, 1 failed, 2 the command was not understood.`

type Run = (engine: Engine, names: readonly string[], data: boolean) => Promise<readonly ServiceStatus[]>

class UsageError extends Error {}

const printTable = (services: readonly ServiceStatus[]): void => {
  for (const { name, state, pid, url } of services) {
    const where = url === null ? '' : `  pid ${pid ?? '-'}  ${url}`
    console.log(`${name.padEnd(15)} ${state}${where}`)
  }
}

const printEnv = (services: readonly ServiceStatus[]): void => {
  for (const { variable, url } of services) if (url !== null) console.log(`export ${variable}=${url}`)
}

const status: Run = async (engine, names) => await engine.status(names)

const env: Run = async (engine, names) => {
  const services = await engine.status(names)
  const absent = names.filter((name) => services.find((each) => each.name === name)?.state === 'stopped')
  if (absent.length > 0) throw new ServicesError(`Not running: ${absent.join(', ')}. Start with \`up\`.`)
  return services
}

const kill: Run = async (engine, names) => {
  const [name] = names
  if (name === undefined || names.length > 1) throw new UsageError('`kill` wants the name of one service.')
  return [await engine.kill(name)]
}

const COMMANDS: Readonly<Record<string, { run: Run; print?: (services: readonly ServiceStatus[]) => void }>> =
  {
    up: { run: async (engine, names) => await engine.up(names) },
    down: { run: async (engine, names, data) => await engine.down(names, data) },
    status: { run: status, print: printTable },
    env: { run: env, print: printEnv },
    kill: { run: kill },
  }

interface Line {
  readonly command: string
  readonly names: readonly string[]
  readonly data: boolean
  readonly help: boolean
}

const parse = (): Line => {
  const flag = { type: 'boolean', default: false } as const
  const options = { json: flag, data: flag, help: { ...flag, short: 'h' } } as const
  try {
    const { values, positionals } = parseArgs({ allowPositionals: true, options })
    const [command = '', ...names] = positionals
    for (const name of names) serviceOf(name)
    return { command, names, ...values }
  } catch (error) {
    // Node adds advice of its own, after a full stop, that is about other programs.
    throw new UsageError((error as Error).message.replace(/\. To specify.*/s, '.'))
  }
}

const act = async ({ command, names, data }: Line): Promise<object> => {
  const found = Object.hasOwn(COMMANDS, command) ? COMMANDS[command] : undefined
  if (!found) throw new UsageError(command ? `There is no command "${command}".` : 'Which command?')
  if (data && command !== 'down') throw new UsageError('--data belongs to `down`.')
  const engine = await chooseEngine(console.error)
  const services = await found.run(engine, names, data)
  found.print?.(services)
  return { command, engine: engine.kind, services }
}

/** Errors of the system (no space, no right) name what they are about; all others but ours are defects. */
const isExpected = (error: unknown): error is Error =>
  error instanceof ServicesError ||
  error instanceof UsageError ||
  (error instanceof Error && 'syscall' in error)

const main = async (): Promise<void> => {
  const finish = (result: object): void => {
    if (process.argv.includes('--json')) console.log(JSON.stringify(result))
  }
  try {
    const line = parse()
    if (line.help) console.log(USAGE)
    else finish({ ok: true, ...(await act(line)) })
  } catch (error) {
    if (!isExpected(error)) throw error
    const usage = error instanceof UsageError
    console.error(usage ? `${error.message}\nSee npm run services -- --help` : error.message)
    finish({ ok: false, error: error.message })
    process.exitCode = usage ? 2 : 1
  }
}

endWithReader()
await main()
