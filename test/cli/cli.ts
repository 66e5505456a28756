/** Runs the built program as a user would: in a folder of its own, with the package in its node_modules. */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { onTestFinished } from 'vitest'
import { ROOT } from '../../scripts/run.ts'

export const PROGRAM = join(ROOT, 'dist', 'cli', 'main.mjs')

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
  /** The last line of standard output. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it as they like.
  readonly json: any
}

/** Variables of this shell that would change what is tested. */
const FOREIGN = /^(POSTHASTE_|DATABASE_URL$|OUTBOX_DB_URL$|NO_COLOR$|FORCE_COLOR$|NODE_OPTIONS$|VITEST)/

const environment = (extra: Readonly<Record<string, string>>): Record<string, string> => ({
  ...(Object.fromEntries(Object.entries(process.env).filter(([name]) => !FOREIGN.test(name))) as Record<
    string,
    string
  >),
  ...extra,
})

export interface Folder {
  readonly path: string
  write(name: string, text: string): void
  run(
    args: readonly string[],
    options?: { readonly env?: Record<string, string>; readonly input?: string },
  ): Promise<Ended>
  /** Runs a module of the folder by Node. */
  node(name: string, ...args: readonly string[]): Promise<Ended>
  start(args: readonly string[], env?: Record<string, string>): Running
}

export interface Running {
  readonly child: ChildProcess
  readonly ended: Promise<Ended>
  /** Resolves with the first line of either stream that matches. */
  line(pattern: RegExp): Promise<string>
}

const follow = (child: ChildProcess): Running => {
  let [stdout, stderr] = ['', '']
  const waiting = new Set<() => void>()
  const tell = (): void => {
    for (const look of waiting) look()
  }
  child.stdout?.on('data', (chunk: Buffer) => {
    stdout += chunk.toString('utf8')
    tell()
  })
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk.toString('utf8')
    tell()
  })
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (code) => {
      const last = stdout.trimEnd().split('\n').at(-1) ?? ''
      const json: unknown = last.startsWith('{') && last.endsWith('}') ? JSON.parse(last) : null
      resolve({ code, stdout, stderr, json })
      tell()
    })
  })
  const line = (pattern: RegExp): Promise<string> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        const found = `${stdout}\n${stderr}`.split('\n').find((one) => pattern.test(one))
        if (found === undefined && child.exitCode === null && child.signalCode === null) return
        waiting.delete(look)
        if (found === undefined) reject(new Error(`ended without ${pattern}: ${stdout}${stderr}`))
        else resolve(found)
      }
      waiting.add(look)
      look()
    })
  return { child, ended, line }
}

export const createFolder = (): Folder => {
  if (!existsSync(PROGRAM)) throw new Error('dist/cli/main.mjs is missing: npm run build')
  const path = mkdtempSync(join(tmpdir(), 'posthaste-cli-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  mkdirSync(join(path, 'node_modules'))
  symlinkSync(ROOT, join(path, 'node_modules', 'posthaste'))
  for (const name of ['tsx', 'smol-toml'])
    symlinkSync(join(ROOT, 'node_modules', name), join(path, 'node_modules', name))
  return folderAt(path, PROGRAM)
}

export const folderAt = (
  path: string,
  program: string,
  always: Readonly<Record<string, string>> = {},
): Folder => {
  const start = (args: readonly string[], extra: Record<string, string> = {}): Running => {
    const env = environment({ ...always, ...extra })
    const child = spawn(process.execPath, [...args], { cwd: path, env, stdio: 'pipe' })
    onTestFinished(() => void child.kill('SIGKILL'))
    return follow(child)
  }
  return {
    path,
    write(name, text) {
      mkdirSync(dirname(join(path, name)), { recursive: true })
      writeFileSync(join(path, name), text)
    },
    async run(args, { env = {}, input = '' } = {}) {
      const running = start([program, ...args], env)
      // It may end without having asked for it.
      running.child.stdin?.on('error', () => undefined).end(input)
      return await running.ended
    },
    node: (name, ...args) => start([name, ...args]).ended,
    start: (args, env) => start([program, ...args], env),
  }
}

/** A shop whose mailer refuses addresses without @, for good; `audit` hears everything. */
export const SHOP = `import { createOutbox, PermanentError } from 'posthaste'
import { sqliteStore } from 'posthaste/sqlite'

export const outbox = createOutbox({
  store: sqliteStore({ file: 'shop.db' }),
  destinations: { mailer: { events: ['order.*'] }, audit: { events: ['*'] } },
})
outbox.on('mailer', 'order.placed', (event) => {
  if (!event.payload.email.includes('@')) throw new PermanentError(\`"\${event.payload.email}" is no address\`)
})
outbox.on('audit', '*', () => {})
`

export const CONFIG = `import { defineConfig } from 'posthaste/config'
import { outbox } from './shop.mjs'
export default defineConfig({ outboxes: { shop: outbox } })
`

/** `node publish.mjs COUNT EMAIL`: prints the ids. */
export const PUBLISH = `import { outbox } from './shop.mjs'
const [count, email] = [Number(process.argv[2] ?? 1), process.argv[3] ?? 'ada@example.org']
for (let index = 0; index < count; index += 1)
  console.log(await outbox.transaction((tx) => outbox.publish(tx, { type: 'order.placed', key: 'k' + index, payload: { email } })))
await outbox.close()
`

export interface Shop extends Folder {
  /** Gives the ids. */
  publish(count: number, email?: string): Promise<readonly string[]>
}

/** Its mailer has refused so many, one for each key. */
export const createShopWithDead = async (count: number): Promise<Shop> => {
  const shop = await createShop()
  await shop.publish(count, 'ada')
  await shop.run(['worker', '--once', '--log-level', 'silent'])
  return shop
}

export const createShop = async (): Promise<Shop> => {
  const folder = createFolder()
  folder.write('shop.mjs', SHOP)
  folder.write('posthaste.config.mjs', CONFIG)
  folder.write('publish.mjs', PUBLISH)
  return {
    ...folder,
    async publish(count, email = 'ada@example.org') {
      const { stdout } = await folder.node('publish.mjs', String(count), email)
      return stdout.trim().split('\n')
    },
  }
}
