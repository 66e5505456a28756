/** Finds the configuration file and reads it: code by Node itself or by tsx, JSON, and TOML by smol-toml. */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { extname, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { ConfigError, onOneLine } from './errors.ts'

const EXTENSIONS = ['ts', 'mts', 'js', 'mjs', 'cjs', 'json', 'toml']
const NAMES = EXTENSIONS.map((extension) => `posthaste.config.${extension}`)
const TYPESCRIPT = new Set(['.ts', '.mts', '.cts'])

/** What Node says about TypeScript that it cannot run by itself; tsx can. */
const BEYOND_NODE = new Set([
  'ERR_UNKNOWN_FILE_EXTENSION',
  'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX',
  'ERR_INVALID_TYPESCRIPT_SYNTAX',
  'ERR_MODULE_NOT_FOUND',
  'ERR_UNSUPPORTED_DIR_IMPORT',
])

/** Null when none was named and none is there. */
export const findConfigFile = (folder: string, named: string | undefined): string | null => {
  if (named !== undefined) {
    const path = resolve(folder, named)
    if (!existsSync(path)) throw new ConfigError(`there is no configuration file ${path}`, { file: path })
    if (!EXTENSIONS.includes(extname(path).slice(1)))
      throw new ConfigError(`${path} must end in one of .${EXTENSIONS.join(', .')}`, { file: path })
    return path
  }
  const found = NAMES.filter((name) => existsSync(join(folder, name)))
  if (found.length > 1)
    throw new ConfigError(`there are ${found.join(' and ')} in ${folder}; keep one, or name it with --config`)
  return found[0] === undefined ? null : join(folder, found[0])
}

const load = async (path: string): Promise<unknown> => await import(pathToFileURL(path).href)

const fail = (path: string, error: unknown): never => {
  const { message, code } = error as { readonly message?: string; readonly code?: string }
  const first = onOneLine(message ?? String(error))
  const reason = code === undefined || first.includes(code) ? first : `${code}: ${first}`
  throw new ConfigError(
    `${path} could not be loaded: ${reason}${placeOf(error, path) || mistakeIn(error, path)}`,
    {
      file: path,
      cause: error,
    },
  )
}

const OURS = fileURLToPath(import.meta.url)
/** Frames of Node itself, such as node:internal/modules/esm/resolve, are none of the user's. */
const FRAME = /^\s+at (?:.* \(|async )?((?:file:\/\/)?\/.*):(\d+):\d+\)?$/

/** Where it was thrown, if that is a file of the user's; the name of the file itself need not be said again. */
const placeOf = (error: unknown, path: string): string => {
  const { stack } = error as { readonly stack?: unknown }
  if (typeof stack !== 'string') return ''
  for (const line of stack.split('\n')) {
    const [, said, number] = FRAME.exec(line) ?? []
    if (said === undefined) continue
    const file = said.startsWith('file:') ? fileURLToPath(said) : said
    // From here on it is who loads, not what is loaded.
    if (file === OURS) break
    if (file.includes('/node_modules/')) continue
    return file === path ? ` (line ${number})` : ` (${file}, line ${number})`
  }
  return ''
}

/** Node tells the line of a mistake in the syntax only when it prints it. Nothing of the file is run. */
const mistakeIn = (error: unknown, path: string): string => {
  if (!(error instanceof SyntaxError) || TYPESCRIPT.has(extname(path))) return ''
  // A name that is not there; the message says where.
  if (error.message.startsWith('The requested module')) return ''
  const { stderr, status } = spawnSync(process.execPath, ['--check', '--input-type=module', '-'], {
    input: readFileSync(path),
    encoding: 'utf8',
    timeout: 10_000,
  })
  if (status === 0) return ' (in a file that it imports)'
  const [, line] = /:(\d+)$/.exec(stderr.split('\n', 1)[0] ?? '') ?? []
  return line === undefined ? '' : ` (line ${line})`
}

let registered = false

const registerTsx = async (path: string, why: string): Promise<void> => {
  if (registered) return
  let api: string
  try {
    api = createRequire(pathToFileURL(path)).resolve('tsx/esm/api')
  } catch (cause) {
    throw new ConfigError(
      `${path} is TypeScript, ${why}: install tsx (npm install -D tsx), or write the file as JavaScript`,
      { file: path, cause },
    )
  }
  // require() resolves to the CommonJS form, whose hooks would not find their own files.
  const { register } = (await load(api.replace(/\.cjs$/, '.mjs'))) as { readonly register: () => unknown }
  register()
  // Where the nearest package.json does not say "module", a .ts file is CommonJS, which has hooks of its own.
  const cjs = createRequire(pathToFileURL(path))('tsx/cjs/api') as { readonly register: () => unknown }
  cjs.register()
  registered = true
}

const hasStripping = (): boolean =>
  Boolean((process.features as { readonly typescript?: unknown }).typescript)

/** A module of the user's: TypeScript natively where Node strips types, else through tsx. */
export const loadModule = async (path: string): Promise<Readonly<Record<string, unknown>>> => {
  const isTypeScript = TYPESCRIPT.has(extname(path))
  try {
    if (isTypeScript && !hasStripping())
      await registerTsx(path, `which Node ${process.versions.node} does not run by itself`)
    return (await load(path)) as Readonly<Record<string, unknown>>
  } catch (error) {
    if (error instanceof ConfigError) throw error
    const code = String((error as { readonly code?: unknown })?.code)
    if (!isTypeScript || registered || !BEYOND_NODE.has(code)) return fail(path, error)
    try {
      await registerTsx(path, 'and uses what Node does not run by itself')
    } catch {
      return fail(path, error)
    }
    return (await load(path).catch((again: unknown) => fail(path, again))) as Readonly<
      Record<string, unknown>
    >
  }
}

const parseToml = async (path: string, text: string): Promise<unknown> => {
  let parser: string
  try {
    parser = createRequire(pathToFileURL(path)).resolve('smol-toml')
  } catch (cause) {
    throw new ConfigError(
      `${path} is TOML: install smol-toml (npm install smol-toml), or write the file as JSON`,
      { file: path, cause },
    )
  }
  const { parse } = (await load(parser)) as { readonly parse: (text: string) => unknown }
  return parse(text)
}

interface ParseError extends Error {
  readonly line?: number
  readonly column?: number
}

/** Parsers quote what is around a mistake, and there may be a password in it. */
const withoutSource = ({ message, line, column }: ParseError): string => {
  const [first = ''] = message.replace(/, (?:\.\.\.)?".*"(?:\.\.\.)? is not valid JSON$/s, '').split('\n')
  return line === undefined ? first : `${first} (line ${line}, column ${column})`
}

export const isSettingsOnly = (path: string): boolean => ['.json', '.toml'].includes(extname(path))

/** What the file says: the default export of code, or the document. */
export const readConfigFile = async (path: string): Promise<unknown> => {
  if (!isSettingsOnly(path)) {
    const module = await loadModule(path)
    // A CommonJS build inside of an ES module namespace has its default one level deeper.
    const exported = module.default as { readonly default?: unknown } | undefined
    const config = exported?.default ?? exported
    if (config === undefined)
      throw new ConfigError(
        `${path} has no default export: export default defineConfig({ outboxes: { … } })`,
        {
          file: path,
        },
      )
    return config
  }
  const text = readFileSync(path, 'utf8')
  try {
    return extname(path) === '.json' ? JSON.parse(text) : await parseToml(path, text)
  } catch (error) {
    if (error instanceof ConfigError) throw error
    throw new ConfigError(`${path} could not be loaded: ${withoutSource(error as ParseError)}`, {
      file: path,
    })
  }
}
