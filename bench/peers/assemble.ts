/** From the series of a run to the file that it leaves. */

import { readFileSync } from 'node:fs'
import { machine } from '../machine.ts'
import type { Context, Section, Settings } from './context.ts'
import { RATES } from './measure.ts'
import { payloadOf } from './payload.ts'
import type { BenchResult, ByRate, BySubject, Figure, GrowthFigures } from './result.ts'
import { measuredIn, type Subject } from './subject.ts'
import { targetsOf } from './targets.ts'

const PACKAGES = {
  posthaste: 'posthaste',
  graphile: 'graphile-worker',
  pgboss: 'pg-boss',
  handmade: 'pg',
  samerows: 'pg',
} as const

const versionOf = ({ name }: Subject): string => {
  const path = new URL(`./node_modules/${PACKAGES[name]}/package.json`, import.meta.url)
  return (JSON.parse(readFileSync(path, 'utf8')) as { version: string }).version
}

const bySubject = <T>(subjects: readonly Subject[], of: (subject: Subject) => T): BySubject<T> =>
  Object.fromEntries(subjects.map((subject) => [subject.name, of(subject)]))

const latencyOf = ({ series }: Context, kind: 'keyed' | 'unkeyed', name: string): ByRate =>
  Object.fromEntries(
    RATES.map((rate) => {
      const path = `latency/${kind}/${rate}/${name}`
      return [rate, { p50: series.figure(`${path}/p50`), p99: series.figure(`${path}/p99`) }]
    }),
  )

const growthOf = ({ series, sizes }: Context, name: string): GrowthFigures => ({
  finished: Object.fromEntries(
    sizes.growth.map((rows) => [rows, series.figure(`growth/${name}/finished/${rows}`)]),
  ),
  pinned: series.figure(`growth/${name}/pinned`),
  pending: { [sizes.pending]: series.figure(`growth/${name}/pending`) },
})

const othersOf = ({ series }: Context, others: Settings['others']): NonNullable<BenchResult['others']> =>
  Object.fromEntries(
    Object.entries(others).map(([name, server]) => {
      if ('skipped' in server) return [name, server]
      const [drain, publish, publishNone] = ['drain', 'publish', 'publishNone'].map((what) =>
        series.figure(`others/${name}/${what}`),
      ) as [Figure, Figure, Figure]
      return [name, { drain, publish, publishNone }]
    }),
  )

const sectionsOf = (context: Context, others: Settings['others'], has: (section: Section) => boolean) => {
  const { series, subjects, sizes } = context
  return {
    ...(has('drain') && {
      drain: bySubject(subjects, ({ name }) => ({
        ...series.figure(`drain/1/${name}`),
        twoProcesses: series.figure(`drain/2/${name}`),
        microsPerEvent: {
          clients: series.figure(`drain/1/${name}/clients`),
          server: series.figure(`drain/1/${name}/server`),
        },
      })),
    }),
    ...(has('latency') && {
      latency: bySubject(measuredIn('latency', subjects), ({ name }) => ({
        unkeyed: latencyOf(context, 'unkeyed', name),
        keyed: latencyOf(context, 'keyed', name),
      })),
    }),
    ...(has('publish') && {
      publish: {
        none: series.figure('publish/none'),
        ...bySubject(subjects, ({ name }) => series.figure(`publish/${name}`)),
      },
    }),
    ...(has('growth') && {
      growth: bySubject(measuredIn('growth', subjects), ({ name }) => growthOf(context, name)),
    }),
    ...(has('memory') && {
      memory: {
        backlog: sizes.pending,
        posthaste: series.figure('memory/posthaste'),
        limited: series.figure('memory/limited'),
        handmade: series.figure('memory/handmade'),
      },
    }),
    ...(has('others') && { others: othersOf(context, others) }),
  }
}

export const assemble = (
  { command, sections, others, awayMs }: Settings,
  context: Context,
  failures: readonly string[],
): BenchResult => {
  const { subjects, sizes, database } = context
  const measured = {
    date: new Date().toISOString(),
    command,
    machine: machine(),
    node: process.version,
    postgres: database.server,
    versions: bySubject(subjects, versionOf),
    settings: {
      rounds: sizes.rounds,
      events: sizes.events,
      growthEvents: sizes.growthEvents,
      payloadBytes: Buffer.byteLength(JSON.stringify(payloadOf(12_345))),
      awayMs,
      subjects: bySubject(subjects, ({ settings }) => settings),
    },
    ...sectionsOf(context, others, (section) => sections.includes(section)),
    failures,
  }
  return { ...measured, targets: targetsOf(measured) }
}
