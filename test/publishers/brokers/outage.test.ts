/** A broker that is away for some seconds under load; `npm run outage` does the same for longer, and looks at the pace too. */
import { expect, it } from 'vitest'
import { runOutage } from '../../../chaos/outage/run.ts'
import { problemsOf } from '../../../chaos/outage/verdict.ts'

it('nothing dies, no attempt is spent, the breaker is seen open, and everything is delivered afterwards', async () => {
  const figures = await runOutage({
    broker: 'redis',
    seconds: 2,
    eventsPerSecond: 50,
    label: 'ot',
    progress: () => undefined,
  })
  expect(problemsOf(figures), JSON.stringify(figures)).toEqual([])
  expect(figures).toMatchObject({ lost: 0, otherLost: 0, dead: 0, attemptsSpent: 0, outOfOrder: 0 })
  expect(figures.committed).toBeGreaterThan(0)
  expect(figures.delivered).toBe(figures.committed)
  // Otherwise it would not have been away.
  expect(figures.waitingAtEnd).toBeGreaterThan(0)
})
