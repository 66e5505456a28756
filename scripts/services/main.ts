/**
 * Real databases for tests: `npm run services -- up|down|status|env|kill [name…]`. Progress goes to standard error,
 * results to standard output, so that `eval "$(npm run -s services -- env)"` works.
 */
import { parseArgs } from 'node:util'
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
NAME@LABEL is another server of that kind, with data of its own. --json: the last line is one JSON object.`

type Run = (engine: Engine, names: readonly string[], data: boolean) => Promise<readonly ServiceStatus[]>

const printTable = (services: readonly ServiceStatus[]): void => {
  for (const { name, state, pid, url } of services) {
    const where = url === null ? '' : `  pid ${pid ?? '-'}  ${url}`
    console.log(`${name.padEnd(13)} ${state}${where}`)
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
  if (name === undefined || names.length > 1) throw new ServicesError('`kill` wants the name of one service.')
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

const parse = (): { command: string; names: string[]; data: boolean; json: boolean; help: boolean } => {
  const flag = { type: 'boolean', default: false } as const
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { json: flag, data: flag, help: { ...flag, short: 'h' } },
  })
  const [command = '', ...names] = positionals
  return { command, names, ...values }
}

const main = async (): Promise<number> => {
  let json = process.argv.includes('--json')
  let name = ''
  try {
    const { command, names, data, help, ...flags } = parse()
    json = flags.json
    name = command
    if (help) {
      console.log(USAGE)
      return 0
    }
    const found = COMMANDS[command]
    if (!found) {
      console.error(USAGE)
      return 2
    }
    const engine = await chooseEngine(console.error)
    const services = await found.run(engine, names, data)
    found.print?.(services)
    if (json) console.log(JSON.stringify({ ok: true, command, engine: engine.kind, services }))
    return 0
  } catch (error) {
    const usage = error instanceof TypeError && 'code' in error
    if (!(error instanceof ServicesError) && !usage) throw error
    console.error(error.message)
    if (json) console.log(JSON.stringify({ ok: false, command: name, error: error.message }))
    return usage ? 2 : 1
  }
}

process.exitCode = await main()
