/** The model checker Spin: where it comes from, and one run of it. */
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '../run.ts'
import { account, findFolder } from '../services/folder.ts'
import { debianCommand, installDebian } from '../services/install/debian.ts'
import type { Command, Site } from '../services/service.ts'
import { type Bug, definitions, type Scene } from './catalogue.ts'

const VERSION = '6.5.2'
const MEMORY_MB = 8_000
const OUTPUT_BYTES = 64 * 1024 * 1024

/** Something that the person at the keyboard can act on. */
export class CheckerError extends Error {}

export interface Checked {
  readonly scene: string
  /** How often a state was come to, and how many different ones there are. */
  readonly states: number
  readonly distinct: number
  /** Actions in the longest history that was looked at. */
  readonly depth: number
  /** The property that does not hold, or null. */
  readonly property: string | null
  /** What happened until then, one line per action. */
  readonly story: readonly string[]
  readonly ms: number
}

export type Checker = (args: readonly string[]) => Command

const runs = (program: string, args: readonly string[]): string | null => {
  const { status, stdout } = spawnSync(program, args, { encoding: 'utf8' })
  return status === 0 ? stdout : null
}

/** Spin of the machine if it is the same version, else Debian's package, unpacked beside the servers of the tests. */
export const findChecker = async (report: (text: string) => void): Promise<Checker> => {
  if (runs('cc', ['--version']) === null)
    throw new CheckerError('Spin writes its search as a C program: a C compiler, cc, must be on the PATH.')
  if (runs('spin', ['-V'])?.includes(` ${VERSION} `)) return (args) => ({ program: 'spin', args })
  const folder = findFolder(report)
  const site: Site = {
    name: 'spin',
    folder,
    home: join(folder, 'spin'),
    port: 0,
    account,
    durable: false,
    portOf: () => 0,
    report,
  }
  await installDebian(site, 'bookworm', 'spin')
  const checker: Checker = (args) => debianCommand(site, 'spin', 'usr/bin/spin', args)
  const { program, args } = checker(['-V'])
  const found = runs(program, args)
  if (!found?.includes(` ${VERSION} `))
    throw new CheckerError(`Spin ${VERSION} is needed; Debian gave: ${found ?? 'nothing that runs'}`)
  return checker
}

const must = ({ program, args }: Command, cwd: string): string => {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd,
    encoding: 'utf8',
    maxBuffer: OUTPUT_BYTES,
  })
  if (status === 0) return stdout
  throw new CheckerError(
    `${program} failed: ${error?.message ?? `${stdout}\n${stderr}`.trim().slice(-2_000)}`,
  )
}

const numberIn = (text: string, pattern: RegExp): number => {
  const found = pattern.exec(text)?.[1]
  if (found === undefined) throw new CheckerError(`Spin's answer is not understood:\n${text.slice(-2_000)}`)
  return Number(found)
}

export interface Search {
  readonly scene: Scene
  readonly bug: Bug | null
  /** Looks for histories without an end instead; every one must come to its end. */
  readonly endless: boolean
}

/** Breadth first finds the shortest story of a mistake; depth first needs less memory where there is none. */
const flagsFor = ({ bug, endless }: Search): readonly string[] =>
  endless ? ['-DNP', '-DCOLLAPSE'] : bug === null ? ['-DSAFETY', '-DCOLLAPSE'] : ['-DSAFETY', '-DBFS']

const judge = (output: string, told: string): { property: string | null; story: readonly string[] } => {
  if (numberIn(output, /errors: (\d+)/) === 0) return { property: null, story: [] }
  // Spin ends with a line of its own that begins with a number.
  const story = told.split('\n').flatMap((line) => /^ {2}([a-z].*)$/.exec(line)?.[1] ?? [])
  const property = /^VIOLATED (\S+)$/m.exec(told)?.[1]
  if (property !== undefined) return { property, story }
  if (/pan:\d+: non-progress cycle/.test(output)) return { property: 'every-history-ends', story }
  return { property: 'nothing-stuck', story }
}

export const check = (checker: Checker, search: Search): Checked => {
  const { scene, bug, endless } = search
  const startedAt = performance.now()
  const folder = mkdtempSync(join(tmpdir(), 'posthaste-model-'))
  try {
    const source = join(ROOT, 'model')
    for (const name of readdirSync(source)) cpSync(join(source, name), join(folder, name))
    const defined = definitions(scene, bug)
    // Without -o1 and -o2 Spin would leave out variables that only the C parts use.
    must(checker(['-Pcc -E -x c', '-o1', '-o2', ...defined, '-a', 'outbox.pml']), folder)
    const flags = ['-O2', '-w', '-DNOREDUCE', `-DMEMLIM=${MEMORY_MB}`, ...flagsFor(search), ...defined]
    const program = join(folder, 'pan')
    must({ program: 'cc', args: [...flags, '-o', program, 'pan.c'] }, folder)
    const output = must({ program, args: [...(endless ? ['-l'] : []), '-w24', '-m10000'] }, folder)
    if (
      /out of memory|max search depth too small|Search not completed/.test(output) &&
      !/errors: [1-9]/.test(output)
    )
      throw new CheckerError(`The search did not come to its end:\n${output.slice(-2_000)}`)
    const hasTrail = existsSync(join(folder, 'outbox.pml.trail'))
    // Telling ends with the very violation, and says so by its exit code.
    const told = hasTrail
      ? spawnSync(program, ['-r', '-n', '-S'], { cwd: folder, encoding: 'utf8', maxBuffer: OUTPUT_BYTES })
          .stdout
      : ''
    return {
      scene: scene.name,
      states: numberIn(output, /([\d.e+]+) transitions/),
      distinct: numberIn(output, /([\d.e+]+) states, stored/),
      depth: numberIn(output, /depth reached (\d+)/),
      ...judge(output, told),
      ms: Math.round(performance.now() - startedAt),
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
