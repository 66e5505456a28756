import { describe, expect, it } from 'vitest'
import { SILENT_LOGGER } from '../runtime/logger.ts'
import type { Registry, RegistryState } from '../spi/index.ts'
import { Routes } from './routes.ts'

describe('looks at the registry', () => {
  it('that overtake each other leave the youngest answer in force', async () => {
    const paused: boolean[] = []
    const routes = new Routes([], SILENT_LOGGER, (settings) => paused.push(settings.paused))
    const answers: ((state: RegistryState) => void)[] = []
    const registry = {
      load: () => new Promise<RegistryState>((resolve) => answers.push(resolve)),
    } as unknown as Registry
    const state = (isPaused: boolean): RegistryState =>
      ({
        version: 1,
        destinations: [{ name: 'x', patterns: [], paused: isPaused }],
      }) as unknown as RegistryState
    const [first, second] = [routes.refresh(registry), routes.refresh(registry)]
    answers[1]?.(state(true))
    await second
    answers[0]?.(state(false))
    // Whoever asked sees the answer to his own question.
    expect((await first)?.destinations[0]?.paused).toBe(false)
    expect(paused).toEqual([true])
    expect(routes.registered[0]?.paused).toBe(true)
  })
})
