/** A benchmark is a list of steps in the order in which they run, so that it can say how long it will take. */

export interface Step {
  readonly name: string
  /** A guess for a machine with two cores; corrected by what earlier steps took. */
  readonly seconds: number
  /** Where the result would have been, in case there is none. */
  readonly path: string
  /** What was measured, for the reader who waits. */
  run(): Promise<string>
}

export const inRounds = (rounds: number, steps: (round: number) => readonly Step[]): Step[] =>
  Array.from({ length: rounds }, (_, round) => steps(round + 1)).flat()

const duration = (seconds: number): string =>
  seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`

/** Runs all, also after a failure: what a peer cannot do must not hide what the others can. */
export const runPlan = async (
  steps: readonly Step[],
  say: (line: string) => void,
  failed: (step: Step, error: Error) => void,
): Promise<void> => {
  const total = steps.reduce((sum, { seconds }) => sum + seconds, 0)
  say(`${steps.length} steps, about ${duration(total)}`)
  const startedAt = performance.now()
  let guessed = 0
  for (const [index, step] of steps.entries()) {
    const number = String(index + 1).padStart(String(steps.length).length)
    let outcome: string
    try {
      outcome = await step.run()
    } catch (error) {
      outcome = `FAILED: ${(error as Error).message}`
      failed(step, error as Error)
    }
    guessed += step.seconds
    const took = (performance.now() - startedAt) / 1_000
    const left = ((total - guessed) * took) / guessed
    const rest = index + 1 < steps.length ? `, ${duration(left)} left` : ''
    say(`[${number}/${steps.length}] ${step.name}: ${outcome}${rest}`)
  }
}
