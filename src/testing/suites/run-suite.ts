/** What the suites have in common: topics with cases, skipped ones with their reasons, and no test runner of their own. */

/** What a test runner hands to a case; most have a way to say that it does not apply, and why. */
export interface CaseContext {
  skip?(reason: string): void
}

export interface SuiteOptions {
  describe(title: string, body: () => void): void
  it(title: string, body: (context?: CaseContext) => Promise<void>): void
  /** Tests that cannot hold here, by title, and why. A title that does not exist is an error. */
  readonly skip?: readonly { readonly test: string; readonly reason: string }[]
}

/** Cases by title; each gets a fixture of its own. */
export interface SuiteTopic<Fixture> {
  readonly title: string
  readonly cases: Readonly<Record<string, (t: Fixture) => Promise<void>>>
}

/** Thrown by a case that is about something which does not exist here. */
export class Inapplicable extends Error {}

export const runSuite = <Fixture>(
  options: SuiteOptions,
  topics: readonly SuiteTopic<Fixture>[],
  within: (run: (t: Fixture) => Promise<void>) => Promise<void>,
): void => {
  const reasons = new Map((options.skip ?? []).map(({ test, reason }) => [test, reason]))
  const titles = new Set(topics.flatMap((topic) => Object.keys(topic.cases)))
  const unknown = [...reasons.keys()].filter((title) => !titles.has(title))
  if (unknown.length > 0) throw new Error(`the suite has no test called ${unknown.join(', ')}`)
  for (const topic of topics) {
    options.describe(topic.title, () => {
      for (const [title, run] of Object.entries(topic.cases)) {
        const reason = reasons.get(title)
        // A skipped case stays in the report together with its reason, so that nobody forgets it.
        if (reason !== undefined) options.it(title, async (context) => context?.skip?.(reason))
        else options.it(title, (context) => runCase(within, run, context))
      }
    })
  }
}

const runCase = async <Fixture>(
  within: (run: (t: Fixture) => Promise<void>) => Promise<void>,
  run: (t: Fixture) => Promise<void>,
  context: CaseContext | undefined,
): Promise<void> => {
  let inapplicable: string
  try {
    await within(run)
    return
  } catch (error) {
    if (!(error instanceof Inapplicable)) throw error
    inapplicable = error.message
  }
  context?.skip?.(inapplicable)
}
