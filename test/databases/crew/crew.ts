/** Starts the processes of a crew. */
import { type ChildProcess, fork } from 'node:child_process'
import { TYPESCRIPT } from '../../../scripts/run.ts'
import type { WorkerTask } from './worker.ts'

/** Resolves when it has lanes to look after. */
export const startWorker = async (task: WorkerTask): Promise<ChildProcess> => {
  const child = fork(new URL('./worker.ts', import.meta.url), [JSON.stringify(task)], {
    execArgv: [...TYPESCRIPT],
  })
  await new Promise<void>((resolve, reject) => {
    child.once('message', () => resolve())
    child.once('exit', (code) => reject(new Error(`a worker ended with ${code} before it was ready`)))
  })
  return child
}

/** Resolves when it is gone. */
export const killWorker = async (worker: ChildProcess): Promise<void> => {
  const gone = new Promise((resolve) => worker.once('exit', resolve))
  worker.kill('SIGKILL')
  await gone
}
