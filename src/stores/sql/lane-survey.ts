/** A survey from the rows of two statements: the workers that are not fenced, and the lanes. */
import type { DestinationSurvey, LaneSurvey, OwnedLane, WorkerLease } from '../../core/spi/index.ts'

export interface LiveWorker extends WorkerLease {
  readonly destinations: readonly string[]
}

export interface SurveyedLane extends OwnedLane {
  readonly destination: string
  readonly owner: 'nobody' | 'me' | 'other'
}

export const laneSurvey = (
  workerId: string,
  destinations: readonly string[],
  workers: readonly LiveWorker[],
  lanes: readonly SurveyedLane[],
): LaneSurvey => {
  const surveys = destinations.map((destination): [string, DestinationSurvey] => {
    const mine: OwnedLane[] = []
    let free = 0
    for (const one of lanes) {
      if (one.destination !== destination) continue
      if (one.owner === 'nobody') free += 1
      else if (one.owner === 'me') mine.push({ lane: one.lane, epoch: one.epoch })
    }
    // Whoever seems to be gone needs no share, even if nobody may have its lanes yet.
    const serving = workers.filter(
      (worker) =>
        (worker.expiresInMs > 0 || worker.workerId === workerId) && worker.destinations.includes(destination),
    ).length
    return [destination, { workers: serving, mine, free }]
  })
  const others = workers
    .filter((worker) => worker.workerId !== workerId)
    .map(({ workerId: id, stamp, leaseMs, expiresInMs }) => ({ workerId: id, stamp, leaseMs, expiresInMs }))
  return { alive: others.length < workers.length, destinations: new Map(surveys), others }
}
