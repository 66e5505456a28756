/**
 * The packed package in empty projects: alone, where every subpath loads and whoever needs a library names it; and with
 * exactly one data layer, where types resolve and an event is published and heard, as ESM and as CommonJS.
 *
 *   npm run test:package -- [--only LAYER] [--full] [--built] [--json]
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import mysql from 'mysql2/promise'
import pg from 'pg'
import { pack } from './examples/kitchen.ts'
import { emit } from './package/compile.ts'
import { furnish, unpack } from './package/folders.ts'
import { LAYERS, type Layer } from './package/layers.ts'
import { installNodes, lowestNode, type PackagedNode } from './packaged-nodes.ts'
import { heading, mustRun, ROOT } from './run.ts'
import { serviceUrls } from './services/index.ts'
import { choiceOption, runCommand } from './usage.ts'

const NAMES = LAYERS.map(({ name }) => name)

const HELP = `Usage: npm run test:package -- [OPTIONS]

  --only LAYER  one of ${NAMES.join(', ')}
  --full        every layer on every Node; otherwise two on every Node, and the others on the lowest that they run on
  --built       dist is current: do not build
  --json        the last line is { suite, passed, failed, skipped: [{ case, reason }], results: [{ case, ok, seconds, error }] }

Exit code: 0 all work, 1 one does not, 2 the command was not understood.
`

const SPEC = {
  only: { type: 'string' },
  full: { type: 'boolean', default: false },
  built: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

/** Tried on every Node, even when the others are not: one with a server and one with a binary. */
const SAMPLES: readonly string[] = ['pg', 'libsql']

/** It takes seconds to start, so it is tried with --full, or when it is asked for. */
const SLOW: readonly string[] = ['pglite']

/** Programs under way at once. */
const AT_ONCE = 2

interface Case {
  readonly name: string
  run(): Promise<unknown>
}

interface Result {
  readonly case: string
  readonly ok: boolean
  readonly seconds: number
  readonly error: string | null
}

const execute = async (program: string, args: readonly string[], cwd: string): Promise<void> => {
  try {
    await promisify(execFile)(program, args, { cwd, timeout: 900_000 })
  } catch (error) {
    const { stderr, message } = error as { readonly stderr?: string; readonly message: string }
    throw new Error(stderr || message)
  }
}

const runOn = ({ path }: PackagedNode, home: string, ...args: readonly string[]): Promise<void> =>
  execute(path, ['--preserve-symlinks', ...args], home)

const tryCase = async ({ name, run }: Case): Promise<Result> => {
  const started = performance.now()
  let error: string | null = null
  try {
    await run()
  } catch (problem) {
    error = (problem as Error).message
  }
  const seconds = Math.round((performance.now() - started) / 100) / 10
  console.log(`${error === null ? 'ok    ' : 'FAILED'} ${name.padEnd(30)} ${seconds} s`)
  if (error !== null) console.log(error)
  return { case: name, ok: error === null, seconds, error }
}

const tryAll = async (cases: readonly Case[]): Promise<readonly Result[]> => {
  const results: Result[] = []
  const todo = [...cases]
  const worker = async (): Promise<void> => {
    for (let next = todo.shift(); next !== undefined; next = todo.shift()) results.push(await tryCase(next))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  return results
}

interface Places {
  urlFor(database: Layer['database']): string
  remove(): Promise<void>
}

/** A database of its own on each server that is needed. */
const makePlaces = async (layers: readonly Layer[]): Promise<Places> => {
  const needed = new Set(layers.map(({ database }) => database))
  const servers = [
    ...(needed.has('postgres') ? (['postgres-new'] as const) : []),
    ...(needed.has('mariadb') ? (['mariadb'] as const) : []),
  ]
  const urls: Partial<Record<(typeof servers)[number], string>> = await serviceUrls(servers)
  const name = `package_${randomBytes(6).toString('hex')}`
  const within = (server: string | undefined): string => {
    if (server === undefined) return ''
    const url = new URL(server)
    url.pathname = `/${name}`
    return url.href
  }
  const onEach = async (statement: string): Promise<void> => {
    if (urls['postgres-new'] !== undefined) {
      const client = new pg.Client({ connectionString: urls['postgres-new'] })
      await client.connect()
      await client.query(`${statement}${statement.startsWith('DROP') ? ' WITH (FORCE)' : ''}`)
      await client.end()
    }
    if (urls.mariadb !== undefined) {
      const connection = await mysql.createConnection(urls.mariadb)
      await connection.query(statement)
      await connection.end()
    }
  }
  await onEach(`CREATE DATABASE ${name}`)
  return {
    urlFor: (database) =>
      database === 'none' ? '-' : within(urls[database === 'postgres' ? 'postgres-new' : 'mariadb']),
    remove: () => onEach(`DROP DATABASE ${name}`),
  }
}

const majorOf = ({ major }: PackagedNode): number => Number(major)

interface Plan {
  readonly nodes: readonly PackagedNode[]
  readonly skipped: readonly { readonly case: string; readonly reason: string }[]
}

/** Which of the Nodes, lowest first, a layer is tried on. */
const planFor = (
  { name, from }: Layer,
  nodes: readonly PackagedNode[],
  all: boolean,
  asked: boolean,
): Plan => {
  const able = nodes.filter((node) => majorOf(node) >= (from?.major ?? 0))
  const unable = nodes.filter((node) => !able.includes(node))
  const skipped = unable.map(({ major }) => ({
    case: `${name} on Node ${major}`,
    reason: from?.reason ?? '',
  }))
  if (all) return { nodes: able, skipped }
  if (SLOW.includes(name) && !asked)
    return { nodes: [], skipped: [...skipped, { case: name, reason: 'slow to start: --full, or --only' }] }
  return { nodes: SAMPLES.includes(name) ? able : able.slice(0, 1), skipped }
}

process.exitCode = await runCommand('test:package', HELP, SPEC, async (values) => {
  const layers =
    values.only === undefined
      ? LAYERS
      : LAYERS.filter(({ name }) => name === choiceOption('only', values.only ?? '', NAMES))
  const nodes = [...lowestNode(), ...installNodes()].sort((a, b) => majorOf(a) - majorOf(b))
  if (!values.built) mustRun('tsdown', ['--log-level', 'warn'])
  heading('The packed package in empty projects')
  const folder = mkdtempSync(join(tmpdir(), 'posthaste-package-'))
  const places = await makePlaces(layers)
  try {
    const tarball = pack(folder)
    const alone = join(folder, 'alone')
    unpack(alone, tarball)
    copyFileSync(join(ROOT, 'scripts', 'smoke.mjs'), join(alone, 'smoke.mjs'))
    const homes: string[] = []
    for (const layer of layers) {
      const home = join(folder, layer.name)
      mkdirSync(home)
      await furnish(home, layer, tarball)
      emit(home)
      homes.push(home)
    }
    const plans = layers.map((layer) => planFor(layer, nodes, values.full, values.only !== undefined))
    const checker = join(ROOT, 'scripts', 'package', 'check-types.ts')
    const cases = [
      { name: 'types', run: () => execute('node', ['--import', 'tsx', checker, ...homes], ROOT) },
      ...nodes.map((node) => ({
        name: `alone on Node ${node.major}`,
        run: () => runOn(node, alone, 'smoke.mjs'),
      })),
      ...layers.flatMap((layer, index) =>
        (plans[index]?.nodes ?? []).map((node) => ({
          name: `${layer.name} on Node ${node.major}`,
          run: () =>
            runOn(
              node,
              homes[index] ?? folder,
              'runner.mjs',
              places.urlFor(layer.database),
              `on_${layer.name.replaceAll('-', '_')}_${node.major}`,
            ),
        })),
      ),
    ]
    const results = await tryAll(cases)
    const skipped = plans.flatMap((plan) => plan.skipped)
    for (const one of skipped) console.log(`not run: ${one.case}: ${one.reason}`)
    const failed = results.filter(({ ok }) => !ok).length
    const passed = results.length - failed
    if (values.json) console.log(JSON.stringify({ suite: 'package', passed, failed, skipped, results }))
    return failed === 0 ? 0 : 1
  } finally {
    await places.remove()
    rmSync(folder, { recursive: true, force: true })
  }
})
