/** Processes of the benchmark, seen from outside. */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Message, Order } from './orders.ts'

const CHILD = fileURLToPath(new URL('./child.ts', import.meta.url))

export interface Process {
  /** The next message of that kind; fails when the process ends before. */
  next<K extends Message['kind']>(kind: K): Promise<Extract<Message, { kind: K }>>
  on(listener: (message: Message) => void): void
  /** Lets it close what it opened, and waits. */
  stop(): Promise<void>
  /** Ends it at once. */
  kill(): Promise<void>
  /** Fails when the process ends. */
  endedEarly(): Promise<never>
  readonly ended: Promise<void>
}

const running = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

export const startProcess = (order: Order, nodeOptions: readonly string[] = []): Process => {
  const child = fork(CHILD, { execArgv: [...nodeOptions], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  running.add(child)
  let killed = false
  const ended = new Promise<void>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      running.delete(child)
      if (code === 0 || killed) resolve()
      else reject(new Error(`${order.subject}, ${order.kind}: the process ended with ${code ?? signal}`))
    })
  })
  // Whoever waits hears of it; a process that nobody waits for any more was killed.
  ended.catch(() => undefined)
  child.send(order)
  const endedEarly = async (): Promise<never> => {
    await ended
    throw new Error(`${order.subject}, ${order.kind}: the process ended without an answer`)
  }
  const next = <K extends Message['kind']>(kind: K): Promise<Extract<Message, { kind: K }>> => {
    const answer = new Promise<Extract<Message, { kind: K }>>((resolve) => {
      const listener = (message: Message): void => {
        if (message.kind !== kind) return
        child.off('message', listener)
        resolve(message as Extract<Message, { kind: K }>)
      }
      child.on('message', listener)
    })
    return Promise.race([answer, endedEarly()])
  }
  return {
    next,
    on: (listener) => void child.on('message', listener),
    async stop() {
      if (child.connected) child.send({ kind: 'stop' })
      await ended
    },
    async kill() {
      killed = true
      child.kill('SIGKILL')
      await ended.catch(() => undefined)
    },
    endedEarly,
    ended,
  }
}
