/** Runs the cases of a conformance suite one after another and counts them; for the commands that end with a line of JSON. */
import type { SuiteOptions } from '../src/testing/suites/index.ts'

export interface Counted {
  passed: number
  failed: number
  readonly skipped: { readonly case: string; readonly reason: string }[]
}

interface Case {
  readonly title: string
  run(context: { skip(reason: string): void }): Promise<void>
}

const casesOf = (suite: (options: Pick<SuiteOptions, 'describe' | 'it'>) => void): readonly Case[] => {
  const cases: Case[] = []
  let topic = ''
  suite({
    describe(title, body) {
      topic = title
      body()
    },
    it(title, run) {
      cases.push({ title: `${topic}: ${title}`, run })
    },
  })
  return cases
}

/** `where` goes before the titles of what failed or was skipped. */
export const countCases = async (
  suite: (options: Pick<SuiteOptions, 'describe' | 'it'>) => void,
  counted: Counted,
  where = '',
): Promise<void> => {
  for (const { title, run } of casesOf(suite)) {
    let reason: string | null = null
    try {
      await run({
        skip(why) {
          reason = why
        },
      })
      if (reason === null) counted.passed += 1
      else counted.skipped.push({ case: `${where}${title}`, reason })
    } catch (error) {
      counted.failed += 1
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
      console.log(`FAILED  ${where}${title}\n${text}`)
    }
  }
}

export const reportCounted = ({ passed, failed, skipped }: Counted): void => {
  console.log(`${passed} passed, ${failed} failed, ${skipped.length} do not apply`)
  for (const { case: title, reason } of skipped) console.log(`  ${title} — ${reason}`)
}
