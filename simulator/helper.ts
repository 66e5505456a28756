/** A process that simulates the seeds it is given; `batch.ts` talks to it. */
import process from 'node:process'
import { summarise } from './batch.ts'

type Job = { readonly seed: null } | { readonly seed: number; readonly defect: string | null }

process.on('message', (job: Job) => {
  if (job.seed === null) process.disconnect()
  else void summarise(job.seed, job.defect).then((summary) => process.send?.(summary))
})
