/** Events and functions that wait until a case lets them go on. */
import { type Draft, defineEvent } from '../../../core/define-event.ts'
import type { StandardSchema } from '../../../core/standard-schema.ts'

export interface Signal {
  readonly given: Promise<void>
  give(): void
}

export const signal = (): Signal => {
  let give!: () => void
  const given = new Promise<void>((resolve) => {
    give = resolve
  })
  return { given, give }
}

/** An event with a schema that answers when this has happened. */
export const checkedEvent = (type: string, told: Promise<void>): Draft => {
  const schema: StandardSchema = {
    '~standard': {
      version: 1,
      vendor: 'suite',
      validate: async (value) => {
        await told
        return { value }
      },
    },
  }
  return defineEvent(type, { schema })({ type })
}

/** An event whose schema answers when it is told to. */
export const slowEvent = (type: string): { readonly draft: Draft; answer(): void } => {
  const told = signal()
  return { draft: checkedEvent(type, told.given), answer: told.give }
}
