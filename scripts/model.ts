/** `npm run model`: checks the model of lanes, leases and settles; docs/model.md explains it, HELP what can be asked. */
import { parseArgs } from 'node:util'
import { BUGS, type Bug, findBug, findScene, SCENES, type Scene } from './model/catalogue.ts'
import { type Checked, type Checker, CheckerError, check, findChecker } from './model/checker.ts'
import { ServicesError } from './services/service.ts'
import { endWithReader } from './usage.ts'

const HELP = `npm run model -- [options]

  --scene NAME  this scene alone (default: all of them, one after another)
  --bug NAME    with a mistake planted, and the shortest story in which it shows; --bug list names them all
  --all         the model as it is, then every mistake, and which property each of them breaks
  --endless     look for histories that never end, instead; needs several times as long
  --json        one JSON object as the last line
  --help        this text

Scenes
${SCENES.map(({ name, says }) => `  ${name.padEnd(12)}  ${says}`).join('\n')}

Exit code 0: every property holds, and with --all every mistake is noticed. 1: a property is violated, be it because of
the planted mistake. 2: wrong use. 3: a planted mistake goes unnoticed. 4: the checker cannot be had, or failed.
`

const SPEC = {
  scene: { type: 'string' },
  bug: { type: 'string' },
  all: { type: 'boolean', default: false },
  endless: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

class UsageError extends Error {}

interface Arguments {
  readonly scene: Scene | null
  readonly bug: Bug | null
  readonly list: boolean
  readonly all: boolean
  readonly endless: boolean
  readonly json: boolean
}

const parse = () => {
  try {
    return parseArgs({ options: SPEC, strict: true, allowPositionals: false }).values
  } catch (error) {
    throw new UsageError((error as Error).message.split('. ')[0] ?? 'these options cannot be read')
  }
}

/** Null means that only the help was asked for. */
const readArguments = (): Arguments | null => {
  const { help, scene, bug, all, endless, json } = parse()
  if (help) return null
  const list = bug === 'list'
  const foundScene = scene === undefined ? null : findScene(scene)
  const foundBug = bug === undefined || list ? null : findBug(bug)
  if (foundScene === undefined) throw new UsageError(`there is no scene "${scene}"; --help shows them all`)
  if (foundBug === undefined) throw new UsageError(`there is no bug "${bug}"; --bug list shows them all`)
  if (all && (bug !== undefined || scene !== undefined || endless))
    throw new UsageError('--all goes with --json alone')
  if (endless && foundBug !== null)
    throw new UsageError('--endless looks at the model as it is, without --bug')
  return { scene: foundScene, bug: foundBug, list, all, endless, json }
}

const say = (text: string): void => void process.stdout.write(`${text}\n`)
const report = (text: string): void => void process.stderr.write(`${text}\n`)

const MODEL = 'outbox'

const total = (checked: readonly Checked[]) => ({
  states: checked.reduce((sum, { states }) => sum + states, 0),
  distinct: checked.reduce((sum, { distinct }) => sum + distinct, 0),
  depth: Math.max(...checked.map(({ depth }) => depth)),
  violations: checked.filter(({ property }) => property !== null).length,
  property: checked.find(({ property }) => property !== null)?.property ?? null,
})

const tell = ({ scene, property, story }: Checked): void => {
  say(`\n${property} is violated in scene ${scene}:\n`)
  for (const [i, line] of story.entries()) say(`${String(i + 1).padStart(4)}  ${line}`)
  if (property === 'nothing-stuck') say('\nNothing can happen any more, and not everything is settled.')
  if (property === 'every-history-ends') say('\nThe last of these steps can be repeated for ever.')
}

const checkScenes = (checker: Checker, scenes: readonly Scene[], endless: boolean): readonly Checked[] =>
  scenes.map((scene) => {
    report(`${scene.name}: ${scene.says} …`)
    const checked = check(checker, { scene, bug: null, endless })
    const { distinct, depth, property, ms } = checked
    const result = property === null ? 'everything holds' : `${property} is violated`
    const seconds = (ms / 1_000).toFixed(1)
    say(
      `${scene.name.padEnd(8)} ${distinct} states, histories of up to ${depth} steps, ${seconds} s: ${result}`,
    )
    return checked
  })

const checkBug = (checker: Checker, bug: Bug, chosen: Scene | null): Checked => {
  const scene = chosen ?? findScene(bug.scene)
  if (scene === undefined) throw new CheckerError(`${bug.name} names a scene that does not exist`)
  return check(checker, { scene, bug, endless: false })
}

const runScenes = (checker: Checker, { scene, endless, json }: Arguments): number => {
  const checked = checkScenes(checker, scene === null ? SCENES : [scene], endless)
  for (const one of checked) if (one.property !== null) tell(one)
  const sums = total(checked)
  if (json) say(JSON.stringify({ model: MODEL, bug: null, ...sums, scenes: checked }))
  return sums.violations === 0 ? 0 : 1
}

const runBug = (checker: Checker, bug: Bug, { scene, json }: Arguments): number => {
  const checked = checkBug(checker, bug, scene)
  if (checked.property === null) say(`${bug.name} goes unnoticed in scene ${checked.scene}`)
  else tell(checked)
  if (json) say(JSON.stringify({ model: MODEL, bug: bug.name, ...total([checked]), scenes: [checked] }))
  return checked.property === null ? 3 : 1
}

const runAll = (checker: Checker, json: boolean): number => {
  const good = checkScenes(checker, SCENES, false)
  for (const one of good) if (one.property !== null) tell(one)
  say('\nmistake                  breaks                  scene    steps')
  const bugs = BUGS.map((bug) => {
    const { scene, property, distinct, story } = checkBug(checker, bug, null)
    const steps = story.length
    say(`${bug.name.padEnd(24)} ${(property ?? 'NOTHING').padEnd(23)} ${scene.padEnd(8)} ${steps}`)
    return { bug: bug.name, property, scene, distinct, steps }
  })
  const sums = total(good)
  const unnoticed = bugs.filter(({ property }) => property === null).map(({ bug }) => bug)
  say(`\n${bugs.length - unnoticed.length} of ${bugs.length} mistakes are noticed`)
  if (json) say(JSON.stringify({ model: MODEL, bug: null, ...sums, scenes: good, bugs, unnoticed }))
  if (sums.violations > 0) return 1
  return unnoticed.length === 0 ? 0 : 3
}

const run = async (given: Arguments): Promise<number> => {
  if (given.list) {
    for (const { name, says } of BUGS) say(`${name.padEnd(24)} ${says}`)
    return 0
  }
  const checker = await findChecker(report)
  if (given.all) return runAll(checker, given.json)
  return given.bug === null ? runScenes(checker, given) : runBug(checker, given.bug, given)
}

const main = async (): Promise<number> => {
  try {
    const given = readArguments()
    if (given !== null) return await run(given)
    process.stdout.write(HELP)
    return 0
  } catch (error) {
    if (error instanceof UsageError) {
      process.stderr.write(`${error.message}\nSee npm run model -- --help\n`)
      return 2
    }
    if (!(error instanceof CheckerError || error instanceof ServicesError)) throw error
    process.stderr.write(`${error.message}\n`)
    return 4
  }
}

endWithReader()
process.exitCode = await main()
