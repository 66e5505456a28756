/** Drain, latency and publish: what happens on an ordinary day. */
import { type Context, count } from './context.ts'
import { drain } from './drain.ts'
import { inRounds, type Step } from './plan.ts'
import { startProcess } from './processes.ts'
import { measuredIn, type Subject } from './subject.ts'

export const CONNECTIONS = 16
export const RATES = [100, 1_000] as const
/** Starting processes, and putting everything back to the start. */
const OVERHEAD_SECONDS = 3
/** For guesses only. */
const SLOW_PER_SECOND = 8_000

export const planDrain = ({ database, sizes, series, subjects }: Context): Step[] => {
  const step = (subject: Subject, processes: number, round: number): Step => ({
    name: `drain ${count(sizes.events)}, ${processes} process${processes > 1 ? 'es' : ''}, round ${round}, ${subject.label}`,
    seconds: OVERHEAD_SECONDS + (2 * (sizes.warmUpEvents + sizes.events)) / SLOW_PER_SECOND,
    path: `drain/${processes}/${subject.name}`,
    async run() {
      const { perSecond, microsPerEvent } = await drain(database, subject, {
        events: sizes.events,
        warmUpEvents: sizes.warmUpEvents,
        processes,
      })
      const { clients, server } = microsPerEvent
      series.add(this.path, perSecond)
      series.add(`${this.path}/clients`, clients)
      if (server !== null) series.add(`${this.path}/server`, server)
      return `${count(perSecond)} /s`
    },
  })
  return inRounds(sizes.rounds, (round) =>
    [1, 2].flatMap((processes) => subjects.map((subject) => step(subject, processes, round))),
  )
}

export const planLatency = ({ database, sizes, series, subjects: all }: Context): Step[] => {
  const subjects = measuredIn('latency', all)
  const step = (subject: Subject, keyed: boolean, perSecond: number, round: number): Step => ({
    name: `latency at ${count(perSecond)} /s, ${keyed ? 'keyed' : 'unkeyed'}, round ${round}, ${subject.label}`,
    seconds: OVERHEAD_SECONDS + sizes.warmUpSeconds + sizes.latencySeconds,
    path: `latency/${keyed ? 'keyed' : 'unkeyed'}/${perSecond}/${subject.name}`,
    async run() {
      await database.reset(subject)
      const child = startProcess({
        kind: 'latency',
        url: database.url,
        subject: subject.name,
        keyed,
        perSecond,
        warmUpSeconds: sizes.warmUpSeconds,
        seconds: sizes.latencySeconds,
      })
      const { p50, p99 } = (await child.next('latency')).figures
      await child.ended
      series.add(`${this.path}/p50`, p50)
      series.add(`${this.path}/p99`, p99)
      return `p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms`
    },
  })
  const able = (keyed: boolean): readonly Subject[] =>
    subjects.filter((each) => !keyed || each.unordered === null)
  for (const { name, unordered } of subjects) {
    for (const rate of RATES) {
      for (const which of ['p50', 'p99'])
        if (unordered !== null) series.explain(`latency/keyed/${rate}/${name}/${which}`, unordered)
    }
  }
  return inRounds(sizes.rounds, (round) =>
    [false, true].flatMap((keyed) =>
      RATES.flatMap((rate) => able(keyed).map((subject) => step(subject, keyed, rate, round))),
    ),
  )
}

export const planPublish = ({ database, sizes, series, subjects }: Context): Step[] => {
  const step = (subject: Subject | null, round: number): Step => ({
    name: `publish, round ${round}, ${subject?.label ?? 'no outbox'}`,
    seconds: OVERHEAD_SECONDS + sizes.warmUpSeconds + sizes.publishSeconds,
    path: `publish/${subject?.name ?? 'none'}`,
    async run() {
      if (subject !== null) await database.reset(subject)
      const child = startProcess({
        kind: 'publish',
        url: database.url,
        subject: subject?.name ?? 'none',
        connections: CONNECTIONS,
        warmUpSeconds: sizes.warmUpSeconds,
        seconds: sizes.publishSeconds,
      })
      const { perSecond } = await child.next('published')
      await child.ended
      series.add(this.path, perSecond)
      return `${count(perSecond)} transactions/s`
    },
  })
  return inRounds(sizes.rounds, (round) => [null, ...subjects].map((subject) => step(subject, round)))
}
