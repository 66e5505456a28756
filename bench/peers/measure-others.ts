/** Drain and publish on MariaDB and MySQL, for Posthaste alone: its peers do not know them. */
import { type Context, count, type Sizes } from './context.ts'
import { createMysqlDatabase } from './database.ts'
import { drain } from './drain.ts'
import { CONNECTIONS } from './measure.ts'
import { inRounds, type Step } from './plan.ts'
import { posthasteMysql } from './posthaste-mysql.ts'
import { startProcess } from './processes.ts'
import type { Series } from './series.ts'

const OVERHEAD_SECONDS = 4
const SLOW_PER_SECOND = 5_000

const measureOnce = async (server: string, url: string, sizes: Sizes, series: Series): Promise<string> => {
  const database = await createMysqlDatabase(url)
  try {
    await posthasteMysql.install(database.url)
    const { perSecond } = await drain(database, posthasteMysql, { events: sizes.events, processes: 1 })
    series.add(`others/${server}/drain`, perSecond)
    const publish = async (subject: 'posthaste' | 'none'): Promise<number> => {
      await database.reset(posthasteMysql)
      const { warmUpSeconds, publishSeconds: seconds } = sizes
      const order = {
        kind: 'publish',
        url: database.url,
        subject,
        connections: CONNECTIONS,
        warmUpSeconds,
        seconds,
      } as const
      const child = startProcess(order)
      const published = await child.next('published')
      await child.ended
      series.add(`others/${server}/${subject === 'none' ? 'publishNone' : 'publish'}`, published.perSecond)
      return published.perSecond
    }
    const without = await publish('none')
    const withEvent = await publish('posthaste')
    return `drain ${count(perSecond)} /s, publish ${count(withEvent)} of ${count(without)} transactions/s`
  } finally {
    await database.drop()
  }
}

export const planOthers = ({ sizes, series }: Context, urls: Readonly<Record<string, string>>): Step[] =>
  inRounds(sizes.rounds, (round) =>
    Object.entries(urls).map(([server, url]) => ({
      name: `drain ${count(sizes.events)} and publish on ${server}, round ${round}`,
      seconds:
        3 * OVERHEAD_SECONDS +
        2 * (sizes.warmUpSeconds + sizes.publishSeconds) +
        (2 * sizes.events) / SLOW_PER_SECOND,
      path: `others/${server}/drain`,
      run: () => measureOnce(server, url, sizes, series),
    })),
  )
