import type { LoadedConfig } from '../../config/load-config.ts'
import type { AnyEventDefinition } from '../../core/define-event.ts'
import { compilePattern, matches } from '../../core/policy/routing.ts'
import { isTypeOnly } from '../../core/standard-schema.ts'
import type { Command } from '../command.ts'
import { clean } from '../text.ts'

const isDefinition = (one: unknown): one is AnyEventDefinition =>
  typeof one === 'function' && typeof (one as { readonly type?: unknown }).type === 'string'

/** From the configuration and from what destinations name, each once. */
const definitionsOf = ({ events, outboxes }: LoadedConfig): readonly AnyEventDefinition[] => {
  const named = outboxes.flatMap(({ host }) =>
    Object.values(host.given.destinations ?? {}).flatMap(
      (destination) => destination.events as readonly unknown[],
    ),
  )
  const all = [...events, ...named].filter(isDefinition)
  return [...new Map(all.map((one) => [`${one.type} ${one.version}`, one])).values()].sort((a, b) =>
    a.type < b.type ? -1 : 1,
  )
}

/** Whether payloads are checked when they are published. */
const SCHEMA_TEXTS = { checked: 'yes', 'type only': 'no, the TypeScript type only', none: 'no' } as const

const schemaKind = ({ schema }: AnyEventDefinition): keyof typeof SCHEMA_TEXTS => {
  if (schema === null) return 'none'
  return isTypeOnly(schema) ? 'type only' : 'checked'
}

/** Where the schema library can say it (Standard JSON Schema); an empty schema accepts anything. */
const jsonSchemaOf = ({ schema }: AnyEventDefinition): unknown => {
  const standard = schema?.['~standard'] as
    | { readonly jsonSchema?: { readonly output?: (options: object) => unknown } }
    | undefined
  try {
    return standard?.jsonSchema?.output?.({ target: 'draft-07' }) ?? {}
  } catch {
    // A schema that cannot be said as JSON Schema is still a schema.
    return {}
  }
}

interface Route {
  readonly outbox: string
  readonly destination: string
  readonly patterns: readonly string[]
}

const routesOf = ({ outboxes }: LoadedConfig): readonly Route[] =>
  outboxes.flatMap(({ name, host }) =>
    host.declared().map((destination) => ({
      outbox: name,
      destination: destination.name,
      patterns: destination.patterns,
    })),
  )

const hears = ({ patterns }: Route, type: string): boolean =>
  patterns.some((pattern) => matches(compilePattern(pattern), type))

const asyncapi = (
  definitions: readonly AnyEventDefinition[],
  routes: readonly Route[],
  title: string,
  version: string,
) => {
  const nameOf = ({ type, version: shape }: AnyEventDefinition): string =>
    `${type}.v${shape}`.replaceAll(/[^\w.-]/g, '_')
  const messages = Object.fromEntries(
    definitions.map((definition) => [
      nameOf(definition),
      {
        name: definition.type,
        contentType: 'application/json',
        ...(definition.aggregate === null ? {} : { tags: [{ name: definition.aggregate }] }),
        payload: jsonSchemaOf(definition),
      },
    ]),
  )
  const heard = routes.map((route) => {
    const channel = `${route.outbox}-${route.destination}`
    return { route, channel, members: definitions.filter(({ type }) => hears(route, type)).map(nameOf) }
  })
  return {
    asyncapi: '3.0.0',
    info: { title, version },
    channels: Object.fromEntries(
      heard.map(({ route, channel, members }) => [
        channel,
        {
          address: route.destination,
          messages: Object.fromEntries(
            members.map((name) => [name, { $ref: `#/components/messages/${name}` }]),
          ),
        },
      ]),
    ),
    operations: Object.fromEntries(
      heard.map(({ channel, members }) => [
        `send-${channel}`,
        {
          action: 'send',
          channel: { $ref: `#/channels/${channel}` },
          messages: members.map((name) => ({ $ref: `#/channels/${channel}/messages/${name}` })),
        },
      ]),
    ),
    components: { messages },
  }
}

export const catalog: Command = {
  name: 'catalog',
  group: 'Learn',
  summary: 'the events of this configuration, and who hears them; as AsyncAPI too',
  operands: '',
  counts: [0, 0],
  about: [
    'Definitions come from "events" of the configuration and from the destinations that name them. With --asyncapi it prints an AsyncAPI 3.0 ' +
      'document as JSON; payloads have a schema where the schema library can say it as JSON Schema.',
  ],
  flags: [
    { name: 'asyncapi', about: 'an AsyncAPI 3.0 document, as JSON' },
    { name: 'title', value: 'TEXT', about: 'title of the document (default: Events)' },
    { name: 'api-version', value: 'TEXT', about: 'version of the document (default: 1.0.0)' },
  ],
  examples: [
    ['posthaste catalog', 'what can happen here'],
    ['posthaste catalog --asyncapi > asyncapi.json', 'for other teams'],
  ],
  async run(session) {
    const config = await session.load()
    const definitions = definitionsOf(config)
    const routes = routesOf(config)
    if (session.isOn('asyncapi')) {
      const document = asyncapi(
        definitions,
        routes,
        session.text('title') ?? 'Events',
        session.text('api-version') ?? '1.0.0',
      )
      session.say(JSON.stringify(document, null, 2))
      return { json: { asyncapi: document } }
    }
    const rows = definitions.map((definition) => ({
      type: definition.type,
      version: definition.version,
      aggregate: definition.aggregate,
      schema: schemaKind(definition),
      destinations: routes
        .filter((route) => hears(route, definition.type))
        .map(({ destination }) => destination),
    }))
    if (rows.length === 0)
      session.say('no definitions: name them as "events" in the configuration, or in destinations')
    else
      session.table(rows, [
        { title: 'event', text: ({ type }) => type, colour: () => 'cyan' },
        { title: 'version', text: ({ version }) => String(version), align: 'right' },
        { title: 'aggregate', text: ({ aggregate }) => aggregate ?? '' },
        { title: 'schema', text: ({ schema }) => SCHEMA_TEXTS[schema] },
        {
          title: 'heard by',
          text: ({ destinations }) => clean(destinations.join(', ')) || 'nobody',
          flexible: true,
        },
      ])
    return { json: { events: rows } }
  },
}
