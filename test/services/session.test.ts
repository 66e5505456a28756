import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Service } from '../../scripts/services/service.ts'
import { Session } from '../../scripts/services/session.ts'
import { gate } from '../journeys/world.ts'

// As root, servers run as somebody who may not be allowed to run this Node.
vi.mock(import('../../scripts/services/folder.ts'), async (original) => ({
  ...(await original()),
  account: null,
}))

/** Takes its time before it listens, as servers do, and ends when it cannot. */
const SLOW_SERVER =
  "setTimeout(() => require('node:net').createServer().listen(Number(process.argv[1]), '127.0.0.1'), Number(process.argv[2]))"

const answers = async (port: number): Promise<boolean> =>
  await new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })

interface Slow extends Service {
  /** Where it started. */
  readonly port: () => number | undefined
  readonly chosen: Promise<void>
}

const slowService = (listensAfterMs: number): Slow => {
  let port: number | undefined
  const chosen = gate()
  return {
    name: 'redis',
    variable: 'POSTHASTE_TEST_SLOW_URL',
    preferredPort: 31_977,
    needs: [],
    source: 'npm',
    stopSignal: 'SIGKILL',
    install: async () => {},
    start: async (site) => {
      port = site.port
      chosen.open()
      return { program: process.execPath, args: ['-e', SLOW_SERVER, String(port), String(listensAfterMs)] }
    },
    ready: answers,
    url: (at) => `slow://127.0.0.1:${at}`,
    port: () => port,
    chosen: chosen.promise,
  }
}

const ends: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

const openSession = (): Session => {
  const folder = mkdtempSync(join(tmpdir(), 'posthaste-session-'))
  chmodSync(folder, 0o755)
  const session = new Session(
    folder,
    () => {},
    () => null,
  )
  ends.push(async () => {
    await session.down(slowService(0))
    rmSync(folder, { recursive: true })
  })
  return session
}

describe('copies of the project on one machine', () => {
  it('that start the same service at the same moment have one each', async () => {
    const first = slowService(300)
    const second = slowService(900)
    const firstUp = openSession().up([first])
    await first.chosen
    await Promise.all([firstUp, openSession().up([second])])
    expect(first.port()).toEqual(expect.any(Number))
    expect(second.port()).toEqual(expect.any(Number))
    expect(second.port()).not.toBe(first.port())
  })
})
