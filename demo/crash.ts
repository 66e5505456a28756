/** The same shop in a child process, which is killed with SIGKILL while it works, and started again. */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Board } from './board.ts'
import { chanceOf } from './chance.ts'
import { countInFlight, type Files } from './figures.ts'
import type { Orders, Report } from './shop-process.ts'

/** After these shares of the events the shop is killed. */
const KILL_AT = [0.2, 0.4, 0.6, 0.8] as const

export interface CrashResult {
  readonly kills: number
  readonly inFlightAtKills: number
}

/** Built, both are JavaScript. */
const EXTENSION = import.meta.url.endsWith('.ts') ? 'ts' : 'mjs'
const SHOP = fileURLToPath(new URL(`./shop-process.${EXTENSION}`, import.meta.url))

export const runCrash = async (
  board: Board,
  files: Files,
  options: { readonly events: number; readonly seed: number },
): Promise<CrashResult> => {
  const chance = chanceOf(options.seed, 0)
  let kills = 0
  let inFlightAtKills = 0
  for (;;) {
    const at = KILL_AT[kills]
    const killAfter =
      at === undefined ? null : { published: at * options.events, calls: 1 + Math.floor(chance() * 6) }
    const child = fork(SHOP, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    const end = await runShop(child, board, { ...files, ...options, predecessors: kills }, killAfter)
    if (end !== 'killed') {
      if (end === 'failed') throw new Error('the shop ended by itself, which it never should')
      return { kills, inFlightAtKills }
    }
    kills += 1
    board.kills = kills
    board.rolledBackBefore = board.rolledBack
    const inFlight = await countInFlight(files)
    inFlightAtKills += inFlight
    board.tell(
      `SIGKILL number ${kills}: ${inFlight === 1 ? '1 call was' : `${inFlight} calls were`} over but not yet settled; a new shop starts`,
    )
  }
}

/** Kills at the moment a call has ended: its settle is on the way, and that is when a crash hurts most. */
const runShop = (
  child: ChildProcess,
  board: Board,
  orders: Orders,
  killAfter: { readonly published: number; readonly calls: number } | null,
): Promise<'over' | 'killed' | 'failed'> =>
  new Promise((resolve, reject) => {
    let over = false
    let callsLeft = killAfter?.calls ?? 0
    const endChild = (): void => void child.kill('SIGKILL')
    process.once('exit', endChild)
    child.on('message', (message: Report) => {
      hear(board, message)
      if (message.kind === 'over') over = true
      if (killAfter === null || board.published < killAfter.published) return
      if (message.kind === 'call' && message.call.ok && --callsLeft <= 0) child.kill('SIGKILL')
    })
    child.once('error', reject)
    child.once('exit', (_code, signal) => {
      process.off('exit', endChild)
      resolve(over ? 'over' : signal === 'SIGKILL' ? 'killed' : 'failed')
    })
    if (orders.predecessors === 0) {
      board.tell('the shop is a process of its own: it takes orders and delivers, until it is killed')
    }
    child.send(orders)
  })

const hear = (board: Board, message: Report): void => {
  if (message.kind === 'call') board.called(message.call)
  else if (message.kind === 'stats') board.updated(message.stats)
  else if (message.kind === 'progress') {
    board.published = message.published
    board.rolledBack = board.rolledBackBefore + message.rolledBack
  } else if (message.kind === 'lanes') {
    board.tell('the dead process is fenced, its lanes are taken over, what it left is delivered')
  } else if (message.kind === 'closing') {
    board.tell('the shop is closed for today; what is on its way still arrives')
  } else board.tell(message.clean ? 'everything has arrived' : 'something did not arrive in time')
}
