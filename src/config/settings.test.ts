import { expect, it } from 'vitest'
import { saidByFlag } from './settings.ts'

it.each([
  ['retry.maxAttemps', 'retry.maxAttempts'],
  ['rety.maxAttempts', 'retry.maxAttempts'],
  ['maxAttempts', 'retry.maxAttempts'],
  ['maxAttemps', 'retry.maxAttempts'],
  ['mailer.maxAttempts', 'retry.maxAttempts'],
  ['mailer.retry.max_attempts', 'retry.maxAttempts'],
  ['mailer.concurency', 'mailer.concurrency'],
  ['destinations.mailer.concurency', 'destinations.mailer.concurrency'],
  ['retry.concurrency', 'concurrency'],
  ['outbox.pollIntreval', 'pollInterval'],
  ['worker.workers', 'workers'],
])('--set %s: names the whole key that was probably meant', (key, meant) => {
  expect(() => saidByFlag(`${key}=3`)).toThrow(`${key} is not a setting; did you mean "${meant}"? (--set)`)
})

it.each([
  ['retry.nosuch', /; there are: retry\.maxAttempts, retry\.baseMs, .*retry\.jitter \(--set\)$/],
  ['mailer.nosuch', /; there are: mailer\.concurrency, mailer\.batchSize, .* \(--set\)$/],
  ['nosuch', /; there are: serve, .*, workers, .*, retry\.maxAttempts, .* \(--set\)$/],
])('--set %s: names all keys where none is close', (key, list) => {
  expect(() => saidByFlag(`${key}=3`)).toThrow(list)
})
