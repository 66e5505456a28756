import { afterEach, describe, expect, it, vi } from 'vitest'
import { killService, serviceUrls, startService } from '../../scripts/services/index.ts'

const VARIABLE = 'POSTHASTE_TEST_POSTGRES_URL'
const URL = 'postgres://somebody@elsewhere/db'

afterEach(() => vi.unstubAllEnvs())

describe('a server that the environment names', () => {
  it('is used as it is', async () => {
    vi.stubEnv(VARIABLE, URL)
    expect(await serviceUrls(['postgres'])).toEqual({ postgres: URL })
  })

  it('is not ours to start or to kill', async () => {
    vi.stubEnv(VARIABLE, URL)
    const why = `${VARIABLE} is set, so postgres is not ours to start or to kill.`
    await expect(startService('postgres')).rejects.toThrow(why)
    await expect(killService('postgres')).rejects.toThrow(why)
  })

  it('must be one that there is', async () => {
    await expect(serviceUrls(['oracle'])).rejects.toThrow('There is no service "oracle"')
  })
})
