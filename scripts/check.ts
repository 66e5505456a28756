/**
 * The one gate before a merge. It goes on after a failure, so that one run shows everything there is to mend,
 * and ends with a summary. Slow things (simulation, other Nodes) are in `npm test`.
 */
import { heading, run } from './run.ts'
import { NO_OPTIONS, runCommand } from './usage.ts'

const HELP = `Usage: npm run check

The gate before a merge: format, lint, types, generated files, unit and architecture tests, build, package, unused code. It takes no options.

Exit code: 0 all is well, 1 something is not, 2 the command was not understood.
`

interface Step {
  readonly name: string
  readonly command: readonly [string, ...string[]]
  /** Looks at dist/, so it says nothing of use when the build failed. */
  readonly needsBuild?: true
}

const steps: readonly Step[] = [
  { name: 'Format and lint (biome)', command: ['biome', 'ci', '--error-on-warnings', '.'] },
  { name: 'Promises and determinism (eslint)', command: ['eslint', '.', '--max-warnings', '0'] },
  { name: 'Types (tsc)', command: ['tsc', '--noEmit'] },
  {
    name: 'Generated files are current',
    command: ['node', '--import', 'tsx', 'scripts/generate.ts', '--check'],
  },
  { name: 'Unit and architecture tests (vitest)', command: ['vitest', 'run', 'src/', 'test/architecture/'] },
  { name: 'Build (tsdown)', command: ['tsdown', '--log-level', 'warn'] },
  { name: 'Package (publint)', command: ['publint', '--strict'], needsBuild: true },
  {
    name: 'Types as others see them (attw)',
    command: ['attw', '--pack', '.', '--profile', 'node16'],
    needsBuild: true,
  },
  { name: 'Unused files, exports and packages (knip)', command: ['knip'] },
]

process.exitCode = await runCommand('check', HELP, NO_OPTIONS, async () => {
  const results: { readonly name: string; readonly result: string; readonly ok: boolean }[] = []
  let built = true

  for (const { name, command, needsBuild } of steps) {
    heading(name)
    if (needsBuild && !built) {
      console.log('Not run: the build failed.')
      results.push({ name, result: 'not run', ok: false })
      continue
    }
    const started = performance.now()
    const [program, ...args] = command
    const ok = run(program, args) === 0
    if (program === 'tsdown') built = ok
    const seconds = ((performance.now() - started) / 1000).toFixed(1)
    results.push({ name, result: `${ok ? 'ok' : 'FAILED'} ${seconds} s`, ok })
  }

  heading('Summary')
  for (const { name, result } of results) console.log(`${name.padEnd(46)} ${result}`)
  return results.every(({ ok }) => ok) ? 0 : 1
})
