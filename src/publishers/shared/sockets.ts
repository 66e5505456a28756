/** For clients that leave their sockets open when the other end takes the connection and then says nothing. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'

interface Connecting {
  readonly sockets: Set<Socket>
  hasFailed: boolean
}

const connecting = new AsyncLocalStorage<Connecting>()

const note = (message: unknown): void => {
  const { socket } = message as { readonly socket: Socket }
  const store = connecting.getStore()
  if (store?.hasFailed === true) socket.destroy()
  else store?.sockets.add(socket)
}

let isListening = false

/** Ends whatever `connect` opened when it fails. Node tells nobody of sockets of TLS: these are to be given the signal. */
export const endingSockets = async <T>(connect: (failed: AbortSignal) => Promise<T>): Promise<T> => {
  if (!isListening) subscribe('net.client.socket', note)
  isListening = true
  const store: Connecting = { sockets: new Set(), hasFailed: false }
  const failed = new AbortController()
  try {
    return await connecting.run(store, () => connect(failed.signal))
  } catch (error) {
    store.hasFailed = true
    failed.abort()
    for (const socket of store.sockets) socket.destroy()
    throw error
  } finally {
    store.sockets.clear()
  }
}
