/**
 * Packs a commit as the previous release, which tests and chaos runs let work beside these sources.
 *
 *   npm run compat:pack -- [COMMIT]     default HEAD
 *
 * It is what `npm pack` makes of that commit, without source maps, which are two thirds of it.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { mustRun, ROOT } from './run.ts'

const HOME = join(ROOT, 'test', 'compat')
const WORK = join(ROOT, '.cache', 'compat-pack')

const git = (...args: readonly string[]): Buffer =>
  execFileSync('git', args, { cwd: ROOT, maxBuffer: 1 << 28 })

const [name = 'HEAD'] = process.argv.slice(2)
const commit = git('rev-parse', '--verify', `${name}^{commit}`).toString().trim()

rmSync(WORK, { recursive: true, force: true })
mkdirSync(WORK, { recursive: true })
execFileSync('tar', ['-x', '-C', WORK], { input: git('archive', commit) })
symlinkSync(join(ROOT, 'node_modules'), join(WORK, 'node_modules'))
mustRun('tsdown', ['--no-sourcemap', '--log-level', 'error'], WORK)
for (const file of readdirSync(HOME).filter((each) => each.endsWith('.tgz'))) rmSync(join(HOME, file))
mustRun('npm', ['pack', '--ignore-scripts', '--loglevel=error', '--pack-destination', HOME], WORK)

const { version } = JSON.parse(readFileSync(join(WORK, 'package.json'), 'utf8')) as { version: string }
const release = { file: `posthaste-${version}.tgz`, version, commit }
writeFileSync(join(HOME, 'release.json'), `${JSON.stringify(release, null, 2)}\n`)
rmSync(WORK, { recursive: true, force: true })
