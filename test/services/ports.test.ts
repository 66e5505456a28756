import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { describe, expect, it } from 'vitest'
import { choosePort, isFree, portCandidates } from '../../scripts/services/ports.ts'

const NONE: ReadonlySet<number> = new Set()
const freeBut =
  (...taken: readonly number[]) =>
  async (port: number): Promise<boolean> =>
    !taken.includes(port)

describe('ports', () => {
  it('are the preferred one first, then every hundredth, and never one for outgoing connections', () => {
    const candidates = portCandidates(25_413)
    expect(candidates.slice(0, 3)).toEqual([25_413, 25_513, 25_613])
    expect(candidates.at(-1)).toBe(32_713)
  })

  it('stay the same while they can', async () => {
    expect(await choosePort(25_413, undefined, NONE, freeBut())).toBe(25_413)
    expect(await choosePort(25_413, 25_613, NONE, freeBut())).toBe(25_613)
  })

  it('move away from those of others', async () => {
    expect(await choosePort(25_413, undefined, NONE, freeBut(25_413, 25_513))).toBe(25_613)
    expect(await choosePort(25_413, 25_613, NONE, freeBut(25_613))).toBe(25_413)
  })

  it('are not shared with a service of ours that does not run now', async () => {
    expect(await choosePort(25_413, undefined, new Set([25_413]), freeBut())).toBe(25_513)
  })

  it('run out with an explanation', async () => {
    await expect(choosePort(32_700, undefined, NONE, async () => false)).rejects.toThrow(
      'No free port on 127.0.0.1: tried 32700',
    )
  })

  it('are taken while somebody listens', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    expect(await isFree(port)).toBe(false)
    server.close()
    await once(server, 'close')
    expect(await isFree(port)).toBe(true)
  })
})
