/** Tells the application of every failed attempt; what it throws there is logged and changes nothing. */
import { viewEvent } from '../event-view.ts'
import type { Delivery } from '../model/delivery.ts'
import type { FailureReport } from '../options.ts'
import type { Verdict } from '../policy/failure.ts'
import type { Logger } from '../spi/index.ts'
import { attemptNumber } from './deliver.ts'

export const failureReporter = (
  onFailure: ((failure: FailureReport) => void) | null,
  logger: Logger,
): ((delivery: Delivery, verdict: Verdict, error: unknown) => void) => {
  if (onFailure === null) return () => undefined
  const threw = (problem: unknown): void => logger.log('error', 'onFailure threw', { error: String(problem) })
  return (delivery, verdict, error) => {
    try {
      const { event, destination } = delivery
      const attempt = attemptNumber(delivery)
      const returned: unknown = onFailure({ event: viewEvent(event), destination, attempt, verdict, error })
      Promise.resolve(returned).catch(threw)
    } catch (problem) {
      threw(problem)
    }
  }
}
