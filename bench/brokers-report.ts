/** The figures of `npm run bench:brokers` as a table and a plot. */
import { count } from '../scripts/svg.ts'
import type { BrokersResult } from './brokers/result.ts'
import { machineText } from './machine.ts'
import { COLOURS, draw, type Plot } from './plots.ts'
import { shown, type Table } from './tables.ts'

const DASH = '–'
const NOWHERE = 'a destination that does nothing'

const BROKER_LABELS: Readonly<Record<string, string>> = {
  kafka: 'Apache Kafka',
  rabbitmq: 'RabbitMQ',
  redis: 'Redis Streams',
  nats: 'NATS JetStream',
  mqtt: 'MQTT 5 (Mosquitto)',
}

const labelOf = (name: string): string => BROKER_LABELS[name] ?? name

/** @param isJudged whether the figures say enough for a verdict */
export const brokersTables = (result: BrokersResult, isJudged = true): Table[] => {
  const { brokers, ceiling, target, settings } = result
  return [
    {
      head: [
        `${count(settings.events)} events, events/s`,
        'Posthaste',
        'client alone',
        'ratio',
        ...(isJudged ? [`at least ${target.toFixed(2)}`] : []),
      ],
      rows: [
        ...Object.entries(brokers).map(([name, { posthaste, raw, ratio, met }]) => [
          labelOf(name),
          shown(posthaste),
          shown(raw),
          ratio === null ? DASH : ratio.toFixed(2),
          ...(isJudged ? [met ? 'met' : 'not met'] : []),
        ]),
        [NOWHERE, shown(ceiling), DASH, DASH, ...(isJudged ? [DASH] : [])],
      ],
    },
    {
      head: ['processor time of the process, µs per event', 'Posthaste', 'client alone'],
      rows: [
        ...Object.entries(brokers).map(([name, { cpuMicros }]) => [
          labelOf(name),
          shown(cpuMicros.posthaste),
          shown(cpuMicros.raw),
        ]),
        [NOWHERE, shown(ceiling.cpuMicros), DASH],
      ],
    },
  ]
}

export const brokersPlot = (result: BrokersResult): Plot => {
  const { brokers, ceiling, settings, machine } = result
  const title = 'Drain of PostgreSQL to a broker'
  const subtitle = 'events per second beside the client library sending from memory; more is better'
  const footer = `${result.date.slice(0, 10)} · PostgreSQL ${result.postgres.server_version ?? '?'} · Node ${result.node} · ${machine.cores} cores · bars: medians of ${settings.rounds} rounds; lines: lowest and highest run`
  const groups = [
    ...Object.entries(brokers).map(([name, { posthaste, raw }]) => ({
      title: labelOf(name),
      bars: [
        { label: 'Posthaste', figure: posthaste, colour: COLOURS.posthaste },
        { label: 'client alone', figure: raw, colour: COLOURS.handmade },
      ],
    })),
    {
      title: NOWHERE,
      bars: [{ label: 'Posthaste', figure: ceiling, colour: COLOURS.none }],
    },
  ]
  return {
    name: 'brokers',
    alt: `${title}: ${subtitle}`,
    svg: draw({ title, subtitle, groups, format: count }, footer),
  }
}

export const aboutBrokers = (result: BrokersResult): string => {
  const { machine, postgres, settings, brokers } = result
  const clients = Object.values(brokers).map(({ client }) => client)
  const server = Object.entries(postgres).map(([name, value]) => `${name} ${value}`)
  return [
    `Measured on ${result.date.slice(0, 10)} with \`${result.command}\`.`,
    '',
    machineText(machine, 'servers and clients'),
    `- PostgreSQL: ${server.join(', ')}.`,
    `- Node ${result.node}; ${clients.join(', ')}.`,
    `- ${settings.rounds} rounds in turns, payloads of ${settings.payloadBytes} bytes with ${count(settings.keys)} keys. Posthaste with reads of 1,000 and ${settings.concurrency} batches of ${count(settings.batchSize)} at a time; clients with ${settings.window} messages under way.`,
  ].join('\n')
}
