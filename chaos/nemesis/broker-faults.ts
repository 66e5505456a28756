/** Faults of the real broker, and of the way to it. A run without one has none of them. */
import { setTimeout as pause } from 'node:timers/promises'
import { killService, pidOfService, startService } from '../../scripts/services/index.ts'
import type { Proxy as TcpProxy } from '../../test/databases/proxy.ts'
import type { BrokerPlace } from '../brokers/place.ts'
import { SLOTS } from './crew.ts'
import { type Fault, Missed, pickSlot, type Strike, type World } from './fault.ts'

/** What was on its way to it may be stored or not, and nobody is told. */
const killBroker: Fault = {
  kind: 'kill-broker',
  aim: ({ task, crew, random }) => {
    const { name } = task.broker as BrokerPlace
    const awayMs = random.whole(0, 2_000)
    return {
      hits: 'all',
      detail: `for ${awayMs} ms and its start`,
      act: async () => {
        await killService(name)
        await pause(awayMs)
        crew.redirectBroker(await startService(name))
      },
    }
  },
}

/** Some wait longer for an answer than it is suspended, and some do not. */
const stopBroker: Fault = {
  kind: 'stop-broker',
  refusal: ({ task }) => (task.broker?.home === null ? 'the broker runs in a container' : null),
  aim: ({ task, random }) => {
    const { name } = task.broker as BrokerPlace
    const ms = random.whole(1_000, 6_000)
    return {
      hits: 'all',
      detail: `for ${ms} ms`,
      act: async () => {
        const pid = await pidOfService(name)
        if (pid === null) throw new Missed('the broker does not run')
        process.kill(pid, 'SIGSTOP')
        await pause(ms)
        process.kill(pid, 'SIGCONT')
      },
    }
  },
}

/** Of one process. */
const onTheWay = (
  kind: string,
  strike: (proxy: TcpProxy, world: World) => Pick<Strike, 'detail' | 'act'>,
): Fault => ({
  kind,
  aim(world) {
    const slot = pickSlot(
      world,
      SLOTS.filter(({ serves }) => serves),
    )
    const proxy = slot && world.crew.brokerProxies.get(slot.name)
    if (!slot || !proxy) return null
    const { detail, act } = strike(proxy, world)
    return { hits: [slot.name], detail: `${slot.name}${detail ?? ''}`, act }
  },
})

const cutBroker = onTheWay('cut-broker', (proxy) => ({
  act: async () => {
    if (proxy.open.length === 0) throw new Missed('nobody was connected')
    proxy.cut()
  },
}))

const silentBroker = onTheWay('silent-broker', (proxy, { random }) => {
  const ms = random.whole(1_000, 6_000)
  return {
    detail: ` for ${ms} ms`,
    act: async () => {
      proxy.goSilent()
      await pause(ms)
      proxy.pass()
    },
  }
})

/** What all this is for comes twice as often as the others. */
export const brokerFaults: readonly Fault[] = [killBroker, killBroker, stopBroker, cutBroker, silentBroker]
