/** The destination of the configuration that `posthaste prove` sends to: asked for before tables are made, and by each child. */
import { type LoadOptions, loadConfig } from '../../config/load-config.ts'
import { ERROR_CODES, InvalidOptionError, OutboxError } from '../../core/errors.ts'
import type { DestinationOptions } from '../../core/options.ts'

export interface NamedDestination {
  readonly name: string
  readonly load: LoadOptions
}

type Publishing = DestinationOptions & { readonly to: NonNullable<DestinationOptions['to']> }

const isPublishing = (options: DestinationOptions): options is Publishing => options.to !== undefined

/** Nothing is connected. Refused unless it is there, and has a publisher. */
export const publishingDestination = async ({ name, load }: NamedDestination): Promise<Publishing> => {
  const { outboxes } = await loadConfig({ ...load, under: () => ({ migrate: false }) })
  const all = outboxes.flatMap(({ host }) => Object.entries(host.given.destinations ?? {}))
  const found = all.filter(([one]) => one === name).map(([, options]) => options)
  const publishing = found.find(isPublishing)
  if (publishing !== undefined) return publishing
  const named = (entries: typeof all): string => entries.map(([one]) => one).join(', ') || 'none'
  if (found.length === 0)
    throw new OutboxError(
      ERROR_CODES.unknownDestination,
      `the configuration has no destination "${name}"; there are: ${named(all)}`,
      { destination: name },
    )
  throw new InvalidOptionError(
    `--destination takes one with a publisher (to), and "${name}" has none; such are: ${named(all.filter(([, options]) => isPublishing(options)))}`,
    { option: 'destination', value: name },
  )
}
