import { formatDuration } from '../../config/duration.ts'
import type { LoadedOutbox } from '../../config/load-config.ts'
import type { Command } from '../command.ts'
import { EXIT } from '../exit-codes.ts'
import { describeFailure, failureText } from '../failures.ts'
import { durationFlag } from '../filters.ts'
import { type DestinationOverview, destinationText, type OutboxOverview, takeOverview } from '../overview.ts'
import type { Session } from '../session.ts'
import { type Colour, type Column, type Paint, tableLines } from '../terminal.ts'
import { clean, jsonText } from '../text.ts'
import { wait } from '../wait.ts'

const STATE_COLOURS: Readonly<Record<DestinationOverview['state'], Colour>> = {
  serving: 'green',
  'taking over': 'yellow',
  paused: 'yellow',
  unserved: 'red',
  retired: 'dim',
}

/** From here on a lag is worth a look, and a worry. */
const LAG_LOOK_MS = 10_000
const LAG_WORRY_MS = 60_000

const number = (value: number): string => value.toLocaleString('en-US')

const lagColour = ({ oldestLagMs }: DestinationOverview): Colour | null => {
  if (oldestLagMs === null || oldestLagMs < LAG_LOOK_MS) return null
  return oldestLagMs < LAG_WORRY_MS ? 'yellow' : 'red'
}

/** For how long it has been open in the first process of those in which it is. */
const breakerText = ({ openBreakers: [first], state }: DestinationOverview): string => {
  if (first === undefined) return state === 'serving' ? 'closed' : '-'
  return `open ${formatDuration(Math.max(0, Date.now() - first.sinceMs))}`
}

const COLUMNS: readonly Column<DestinationOverview>[] = [
  {
    title: 'destination',
    text: ({ destination }) => destinationText(destination),
    flexible: true,
    name: true,
  },
  { title: 'state', text: ({ state }) => state, colour: ({ state }) => STATE_COLOURS[state] },
  { title: 'pending', text: ({ counts }) => number(counts.pending), align: 'right' },
  {
    title: 'retry',
    text: ({ counts }) => number(counts.retry),
    align: 'right',
    colour: ({ counts }) => (counts.retry > 0 ? 'yellow' : null),
  },
  { title: 'held', text: ({ counts }) => number(counts.held), align: 'right' },
  { title: 'scheduled', text: ({ counts }) => number(counts.scheduled), align: 'right' },
  {
    title: 'dead',
    text: ({ counts }) => number(counts.dead),
    align: 'right',
    colour: ({ counts }) => (counts.dead > 0 ? 'red' : null),
  },
  { title: 'done', text: ({ counts }) => number(counts.done), align: 'right' },
  {
    title: 'breaker',
    text: breakerText,
    colour: ({ openBreakers }) => (openBreakers.length > 0 ? 'red' : null),
  },
  {
    title: 'lag',
    text: ({ oldestLagMs }) => (oldestLagMs === null ? '-' : formatDuration(oldestLagMs)),
    align: 'right',
    colour: lagColour,
  },
  {
    title: 'rate',
    text: ({ donePerSecond }) => (donePerSecond === null ? '-' : `${donePerSecond.toFixed(1)}/s`),
    align: 'right',
  },
]

export const overviewLines = (
  { name, store, destinations, workers, blockedKeys }: OutboxOverview,
  paint: Paint,
  width: number | null,
): readonly string[] => {
  const lines = [`${paint('bold', clean(name))} ${paint('dim', `(${store})`)}`]
  if (destinations.length === 0) lines.push('  no destination is declared: start a worker once')
  else lines.push(...tableLines(destinations, COLUMNS, paint, width))
  lines.push('')
  const alive = workers.filter(({ fenced }) => !fenced)
  if (alive.length === 0)
    lines.push(
      paint(
        'yellow',
        'no worker is alive: start your application, or posthaste worker with its configuration',
      ),
    )
  else
    lines.push(
      ...tableLines(
        alive,
        [
          { title: 'worker', text: (worker) => worker.name, flexible: true, name: true },
          { title: 'lanes', text: ({ lanes }) => String(lanes), align: 'right' },
          {
            title: 'lease',
            text: ({ expiresInMs }) => (expiresInMs > 0 ? formatDuration(expiresInMs) : 'ran out'),
            colour: ({ expiresInMs }) => (expiresInMs > 0 ? null : 'red'),
          },
          { title: 'destinations', text: (worker) => worker.destinations.join(', ') },
        ],
        paint,
        width,
      ),
    )
  if (blockedKeys.length === 0) return lines
  return [
    ...lines,
    '',
    ...tableLines(
      blockedKeys,
      [
        { title: 'blocked key', text: ({ key }) => key, flexible: true, name: true },
        { title: 'destination', text: ({ destination }) => destination, name: true },
        { title: 'waiting', text: ({ waiting }) => String(waiting), align: 'right' },
        { title: 'head', text: ({ headDeliveryId }) => headDeliveryId, colour: () => 'cyan', whole: true },
        { title: 'is', text: ({ headStatus, headAttempts }) => `${headStatus} after ${headAttempts}` },
      ],
      paint,
      width,
    ),
  ]
}

const plain = ({ atMs, destinations, ...rest }: OutboxOverview) => ({
  ...rest,
  at: new Date(atMs).toISOString(),
  destinations: destinations.map(({ destination, ...more }) => ({ name: destination, ...more })),
})

const ALTERNATE_SCREEN = '\u001b[?1049h\u001b[?25l'
const MAIN_SCREEN = '\u001b[?25h\u001b[?1049l'
/** Home, and each line clears what was to its right, so that nothing flickers. */
const HOME = '\u001b[H'
const CLEAR_LINE = '\u001b[K'
const CLEAR_BELOW = '\u001b[J'

/** Writes over the screen, and gives it back as it was; what is to stay is written there. */
class Screen {
  readonly #session: Session
  readonly #isTerminal: boolean
  readonly #restore = (): void => void this.#session.streams.stdout.write(MAIN_SCREEN)

  constructor(session: Session) {
    this.#session = session
    this.#isTerminal = session.streams.stdout.isTTY === true && !session.isJson
    if (!this.#isTerminal) return
    session.streams.stdout.write(ALTERNATE_SCREEN)
    process.once('exit', this.#restore)
  }

  show(lines: readonly string[]): void {
    if (!this.#isTerminal) {
      for (const line of lines) this.#session.say(line)
      return
    }
    const rows = this.#session.streams.stdout.rows || 24
    const visible = lines.slice(0, rows - 1).map((line) => `${line}${CLEAR_LINE}`)
    this.#session.streams.stdout.write(`${HOME}${visible.join('\r\n')}${CLEAR_LINE}${CLEAR_BELOW}`)
  }

  /** @param lines what stays to be read */
  close(lines: readonly string[]): void {
    if (!this.#isTerminal) return
    process.off('exit', this.#restore)
    this.#restore()
    for (const line of lines) this.#session.say(line)
  }
}

interface Look {
  /** Null where it failed. */
  readonly overview: OutboxOverview | null
  readonly lines: readonly string[]
  readonly json: object
  readonly exitCode: number
}

/** What is known of the others is told all the same when one of several cannot be reached. */
const lookAt = async (
  session: Session,
  loaded: LoadedOutbox,
  before: OutboxOverview | null,
  isOnly: boolean,
): Promise<Look> => {
  try {
    const overview = await takeOverview(loaded, before)
    const lines = overviewLines(overview, session.paint, session.width)
    return { overview, lines, json: plain(overview), exitCode: EXIT.ok }
  } catch (error) {
    if (isOnly) throw error
    const failure = describeFailure(error)
    const { code, message, exitCode } = failure
    const line = `${session.paint('bold', clean(loaded.name))}: ${session.paint('red', failureText(failure))}`
    const json = { name: loaded.name, destinations: [], error: { code, message } }
    return { overview: null, lines: [line], json, exitCode }
  }
}

const watch = async (session: Session, everyMs: number, times: number) => {
  const outboxes = await session.outboxes()
  const { signal, paint, streams } = session
  const before = new Map<string, OutboxOverview>()
  const screen = new Screen(session)
  let looks = 0
  let last: readonly Look[] = []
  let left: readonly string[] = []
  try {
    while (!signal.aborted) {
      const now: Look[] = []
      for (const loaded of outboxes) {
        const look = await lookAt(session, loaded, before.get(loaded.name) ?? null, outboxes.length === 1)
        if (look.overview !== null) before.set(loaded.name, look.overview)
        now.push(look)
      }
      looks += 1
      last = now
      const time = new Date().toISOString().slice(11, 19)
      const head = `${paint('bold', 'posthaste status')}  ${paint('dim', `${time} UTC, every ${formatDuration(everyMs)}, Ctrl-C ends`)}`
      const frame = [head, ...now.flatMap(({ lines }) => ['', ...lines])]
      screen.show(frame)
      if (session.isJson) streams.stdout.write(`${jsonText({ outboxes: now.map(({ json }) => json) })}\n`)
      if (looks >= times) {
        // Nobody was there to end it, so nobody may have read it yet.
        left = frame
        break
      }
      await wait(everyMs, signal)
    }
  } finally {
    screen.close(left)
  }
  return { json: { looks, outboxes: last.map(({ json }) => json) } }
}

export const status: Command = {
  name: 'status',
  group: 'Look',
  summary: 'what waits, fails, is dead and flows; who delivers; which keys are blocked',
  operands: '',
  counts: [0, 0],
  about: [
    'State: "serving" means that a live process has lanes of the destination, "taking over" that its lanes are still those of a process ' +
      'whose lease ran out, until a live one may take them, "unserved" that no live process serves it and its deliveries wait, ' +
      '"paused" that an operator said so, "retired" that it hears nothing any more. Breaker says for how long a live process cannot reach the destination, and --json names ' +
      'all of them. Lag is the age of the oldest delivery that is due, or dead and blocks its key.',
    'With --watch it is shown again and again, live in a terminal, with the rate since the last look.',
  ],
  flags: [
    { name: 'watch', about: 'again and again, until Ctrl-C' },
    { name: 'interval', value: 'DURATION', about: 'with --watch: how often (default 2s)' },
    { name: 'times', value: 'N', about: 'with --watch: end after N looks' },
  ],
  examples: [
    ['posthaste status', 'one look'],
    ['posthaste status --watch --interval 1s', 'live'],
    [
      `posthaste status --json | jq '.outboxes[].destinations[] | {name, dead: .counts.dead}'`,
      'for programs',
    ],
  ],
  async run(session) {
    const everyMs = Math.max(100, durationFlag(session, 'interval') ?? 2_000)
    const times = session.whole('times', Number.MAX_SAFE_INTEGER, [1, 1_000_000])
    if (session.isOn('watch')) return await watch(session, everyMs, times)
    for (const flag of ['interval', 'times'])
      if (session.text(flag) !== undefined)
        session.refuse(`--${flag} needs --watch; without it there is one look`)
    const outboxes = await session.outboxes()
    const all: object[] = []
    let exitCode: number = EXIT.ok
    for (const [index, loaded] of outboxes.entries()) {
      const look = await lookAt(session, loaded, null, outboxes.length === 1)
      if (index > 0) session.say()
      for (const line of look.lines) session.say(line)
      exitCode ||= look.exitCode
      all.push(look.json)
    }
    return { exitCode, json: { outboxes: all } }
  },
}
