/** Ties an outbox to the life of the application. */
import type { OnApplicationBootstrap, OnApplicationShutdown } from '@nestjs/common'
import type { DiscoveryService } from '@nestjs/core'
import { InvalidOptionError } from '../core/errors.ts'
import { findListeners } from './explorer.ts'
import type { AnyOutbox } from './options.ts'
import { nameInToken } from './tokens.ts'

export interface HostParts {
  readonly name: string
  readonly start: boolean
  readonly outbox: AnyOutbox
  readonly discovery: DiscoveryService
}

export class OutboxHost implements OnApplicationBootstrap, OnApplicationShutdown {
  readonly #parts: HostParts

  constructor(parts: HostParts) {
    this.#parts = parts
  }

  /** Everything that listens exists by now, and no request was taken yet. */
  async onApplicationBootstrap(): Promise<void> {
    try {
      await this.#start()
    } catch (error) {
      // Nest closes nothing when a bootstrap fails, and an outbox that goes on would keep the process alive.
      await Promise.allSettled(this.#outboxes().map(async ({ instance }) => await instance.close()))
      throw error
    }
  }

  async #start(): Promise<void> {
    const { name, start, outbox } = this.#parts
    for (const { pattern, destination, listener } of this.#listeners().filter((it) => it.outbox === name)) {
      if (destination === null) outbox.on(pattern, listener)
      else outbox.on(destination, pattern, listener)
    }
    if (start) await outbox.start()
  }

  /** Nest has closed the HTTP server by now, so what its last requests published is delivered still. */
  async onApplicationShutdown(): Promise<void> {
    await this.#parts.outbox.close()
  }

  /** Providers of all outboxes of the application. */
  #outboxes(): ReturnType<DiscoveryService['getProviders']> {
    return this.#parts.discovery.getProviders().filter(({ token }) => nameInToken(token) !== null)
  }

  /** Names are compared here, because a listener of an outbox that nobody has would just never hear anything. */
  #listeners(): ReturnType<typeof findListeners> {
    const names = this.#outboxes().map(({ token }) => nameInToken(token) as string)
    const twice = names.find((name, index) => names.indexOf(name) !== index)
    if (twice !== undefined) {
      throw new InvalidOptionError(
        `two outboxes have the name "${twice}": give OutboxModule.forRoot a name, and call it once for each`,
        { option: 'name', value: twice },
      )
    }
    const found = findListeners(this.#parts.discovery)
    const lost = found.find(({ outbox }) => !names.includes(outbox))
    if (lost !== undefined) {
      throw new InvalidOptionError(
        `@OnOutboxEvent names the outbox "${lost.outbox}", which does not exist; there are: ${names.join(', ')}`,
        { option: 'outbox', value: lost.outbox },
      )
    }
    return found
  }
}
