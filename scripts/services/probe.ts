/** The first words of each protocol: enough to know that a server accepts work, without its client library. */
import { connect } from 'node:net'
import { LOGIN } from './service.ts'

const TIMEOUT_MS = 2_000
const NO_BYTES = Buffer.alloc(0)

/** What the server says first, up to `length` bytes; fewer when it hangs up or is not there. */
const firstBytes = async (port: number, length: number, greeting: Buffer = NO_BYTES): Promise<Buffer> =>
  await new Promise((resolve) => {
    let received: Buffer = NO_BYTES
    const socket = connect({ port, host: '127.0.0.1' }, () => socket.write(greeting))
    const end = (): void => {
      socket.destroy()
      resolve(received)
    }
    socket.setTimeout(TIMEOUT_MS, end)
    socket.on('error', end)
    socket.on('close', end)
    socket.on('data', (bytes) => {
      received = Buffer.concat([received, bytes])
      if (received.length >= length) end()
    })
  })

export const postgresStartup = (): Buffer => {
  const parameters = Buffer.from(`user\0${LOGIN}\0database\0${LOGIN}\0\0`)
  const head = Buffer.alloc(8)
  head.writeInt32BE(head.length + parameters.length, 0)
  head.writeInt32BE(3 << 16, 4)
  return Buffer.concat([head, parameters])
}

/** It asks who we are (R) only once it takes connections; before, and in recovery, it sends an error (E). */
export const speaksPostgres = async (port: number): Promise<boolean> =>
  String.fromCharCode((await firstBytes(port, 1, postgresStartup()))[0] ?? 0) === 'R'

/** MySQL and MariaDB speak first: four bytes of header, then the version of the protocol, or 255 for an error. */
export const speaksMysql = async (port: number): Promise<boolean> => (await firstBytes(port, 5))[4] === 10

export const speaksRedis = async (port: number): Promise<boolean> =>
  (await firstBytes(port, 5, Buffer.from('PING\r\n'))).toString().startsWith('+PONG')

/** It speaks first, and says what it is. */
export const speaksNats = async (port: number): Promise<boolean> =>
  (await firstBytes(port, 5)).toString().startsWith('INFO ')

/** CONNECT of MQTT 3.1.1 as nobody, which is answered by CONNACK. */
export const speaksMqtt = async (port: number): Promise<boolean> => {
  const connect = Buffer.from([0x10, 0x0c, 0, 4, ...Buffer.from('MQTT'), 4, 2, 0, 5, 0, 0])
  return (await firstBytes(port, 4, connect))[0] === 0x20
}

/** It begins with a frame of the kind that carries methods: that it listens to us. */
export const speaksAmqp = async (port: number): Promise<boolean> =>
  (await firstBytes(port, 8, Buffer.from('AMQP\0\0\x09\x01', 'latin1')))[0] === 1

/** It is asked which requests it knows, and answers with the number of our question. */
export const speaksKafka = async (port: number): Promise<boolean> => {
  const number = [0, 0, 0, 7]
  const request = Buffer.from([0, 18, 0, 0, ...number, 0xff, 0xff])
  const answer = await firstBytes(port, 10, Buffer.from([0, 0, 0, request.length, ...request]))
  return (
    answer.length >= 10 && answer.subarray(4, 8).equals(Buffer.from(number)) && answer.readInt16BE(8) === 0
  )
}
