/** Names under which Nest knows an outbox and what belongs to it. */
import { Inject, type InjectionToken } from '@nestjs/common'
import { OutboxHealth } from './health.ts'

/** The outbox that nobody gave a name. */
export const DEFAULT_NAME = 'default'

const PREFIX = 'posthaste:outbox:'

/** For `overrideProvider`, `moduleRef.get` and factories; in constructors there is `@InjectOutbox()`. */
export const getOutboxToken = (name: string = DEFAULT_NAME): InjectionToken => `${PREFIX}${name}`

/** The name in a token of the above; null for every other token. */
export const nameInToken = (token: unknown): string | null =>
  typeof token === 'string' && token.startsWith(PREFIX) ? token.slice(PREFIX.length) : null

/** Of the outbox without a name it is the class `OutboxHealth`. */
export const getOutboxHealthToken = (name: string = DEFAULT_NAME): InjectionToken =>
  name === DEFAULT_NAME ? OutboxHealth : `posthaste:health:${name}`

export const InjectOutbox = (name?: string): PropertyDecorator & ParameterDecorator =>
  Inject(getOutboxToken(name))

export const InjectOutboxHealth = (name?: string): PropertyDecorator & ParameterDecorator =>
  Inject(getOutboxHealthToken(name))
