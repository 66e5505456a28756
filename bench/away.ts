/**
 * Puts a server further away: what either side sends arrives half of the round trip later. A process of its own, so that
 * it waits for nobody.
 *
 *   node away.ts URL MILLISECONDS     says the new address on stdout, and ends with its standard input
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

const [url = '', roundTrip = ''] = process.argv.slice(2)
const target = new URL(url)
const delayMs = Number(roundTrip) / 2

/** Timers of one length run in the order in which they were made, so nothing is overtaken. */
const carry = (from: Socket, to: Socket): void => {
  from.on('data', (data) => setTimeout(() => to.write(data), delayMs))
  from.on('end', () => setTimeout(() => to.end(), delayMs))
  from.on('error', () => to.destroy())
}

const relay = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
  const server = connect({
    host: target.hostname,
    port: Number(target.port || 5_432),
    allowHalfOpen: true,
    noDelay: true,
  })
  carry(client, server)
  carry(server, client)
})

relay.listen(0, '127.0.0.1', () => {
  const shown = new URL(url)
  shown.host = `127.0.0.1:${(relay.address() as AddressInfo).port}`
  console.log(shown.href)
})
process.stdin.resume().once('end', () => process.exit())
