import { describe, expect, it } from 'vitest'
import { type Section, translateOutbox } from './seed-keys.ts'
import { saidInFile } from './settings.ts'

const translated = (section: Section): Section => translateOutbox(section, 'outbox', 'a.toml')

describe('a section of another outbox', () => {
  it.each([
    [2, '2s', 200_000],
    ['5s', '5s', 500_000],
    // Times a thousand it is 1004.9999999999999.
    [1.005, '1.005s', 100_500],
    [0, '10ms', 100_000],
    ['0s', '10ms', 100_000],
    [undefined, undefined, 100_000],
  ])('counts cleanups in ticks of %j', (tick_interval, pollInterval, cleanupIntervalMs) => {
    const section = { tick_interval, cleanup: { cleanup_interval_ticks: 100 } }
    expect(translated(section)).toEqual({ pollInterval, cleanupIntervalMs })
  })

  it.each<[Section, string]>([
    [{ poll_interval: '5s', pollInterval: '9s' }, 'outbox.poll_interval and outbox.pollInterval'],
    [
      { retry: { maxAttempts: 3, max_attempts: 5 } },
      'outbox.retry.maxAttempts and outbox.retry.max_attempts',
    ],
    [
      { cleanup: { cleanup_interval_ticks: 3, cleanupIntervalTicks: 4 } },
      'outbox.cleanup.cleanup_interval_ticks and outbox.cleanup.cleanupIntervalTicks',
    ],
    [
      { destinations: { mailer: { batch_size: 3, batchSize: 5 } } },
      'outbox.destinations.mailer.batch_size and outbox.destinations.mailer.batchSize',
    ],
    [
      { cleanupIntervalMs: 5_000, cleanup: { cleanup_interval_ticks: 3 } },
      'outbox.cleanupIntervalTicks and outbox.cleanupIntervalMs',
    ],
  ])('%j says the same setting twice', (section, names) => {
    expect(() => saidInFile('outbox', translated(section), 'a.toml')).toThrow(
      `${names} are the same setting; keep one of them`,
    )
  })

  it('may leave a name without a value beside the one that is meant', () => {
    expect(translated({ pollInterval: '5s', poll_interval: undefined })).toEqual({ pollInterval: '5s' })
  })
})
