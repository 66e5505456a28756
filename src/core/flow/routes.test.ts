import { describe, expect, it } from 'vitest'
import { SILENT_LOGGER } from '../runtime/logger.ts'
import type { Registry, RegistryState } from '../spi/index.ts'
import { Routes } from './routes.ts'

const state = (paused: boolean): RegistryState =>
  ({ version: 1, destinations: [{ name: 'x', patterns: [], paused }] }) as unknown as RegistryState

const watched = () => {
  const heard: boolean[] = []
  const routes = new Routes([], SILENT_LOGGER, (settings) => heard.push(settings.paused))
  const answers: { resolve(state: RegistryState): void; reject(error: Error): void }[] = []
  const registry = {
    load: () => new Promise<RegistryState>((resolve, reject) => answers.push({ resolve, reject })),
  } as unknown as Registry
  return { routes, registry, heard, answers }
}

const turns = () => new Promise((resolve) => setImmediate(resolve))

describe('looks at the registry', () => {
  it('come one after the other, so that none can bring older news than the one before', async () => {
    const { routes, registry, heard, answers } = watched()
    const first = routes.refresh(registry)
    await turns()
    const second = routes.refresh(registry)
    await turns()
    expect(answers).toHaveLength(1)
    answers[0]?.resolve(state(false))
    expect((await first)?.destinations[0]?.paused).toBe(false)
    await turns()
    answers[1]?.resolve(state(true))
    expect((await second)?.destinations[0]?.paused).toBe(true)
    expect(heard).toEqual([false, true])
  })

  it('are shared by all who ask before they begin, and by nobody who asks later', async () => {
    const { routes, registry, answers } = watched()
    const running = routes.refresh(registry)
    await turns()
    const [one, other] = [routes.refresh(registry), routes.refresh(registry)]
    expect(other).toBe(one)
    expect(one).not.toBe(running)
    answers[0]?.resolve(state(false))
    await running
    await turns()
    expect(answers).toHaveLength(2)
    expect(routes.refresh(registry)).not.toBe(one)
  })

  it('that fail keep what is known, and do not stop the next', async () => {
    const { routes, registry, answers } = watched()
    await routes.learn(() => Promise.resolve(state(true)))
    const failing = routes.refresh(registry)
    await turns()
    answers[0]?.reject(new Error('gone'))
    expect(await failing).toBeNull()
    expect(routes.registered[0]?.paused).toBe(true)
    const next = routes.refresh(registry)
    await turns()
    answers[1]?.resolve(state(false))
    await next
    expect(routes.registered[0]?.paused).toBe(false)
  })
})
