/** How a supervisor asks its children: over the channel that every child has to its parent. */
import type { ChildProcess } from 'node:child_process'

/** What a child can be asked. */
export interface ChildAnswers {
  metrics(): string
  delivers(): Promise<boolean>
}

type Asked = keyof ChildAnswers

interface Question {
  readonly ask: Asked
  readonly id: number
}

interface Reply {
  readonly answer: unknown
  readonly id: number
}

/** Less than a scrape usually waits. */
const TIMEOUT_MS = 2_000

const hasId = (message: unknown): message is { readonly id: number } =>
  typeof (message as { readonly id?: unknown } | null)?.id === 'number'

const isQuestion = (message: unknown, answers: ChildAnswers): message is Question =>
  hasId(message) && Object.hasOwn(answers, String((message as Partial<Question>).ask))

/** In the child. */
export const answerParent = (answers: ChildAnswers): void => {
  const answer = async ({ ask, id }: Question): Promise<void> => {
    const reply: Reply = { answer: await answers[ask](), id }
    // The parent may be gone by now; then nobody wants to know.
    process.send?.(reply, undefined, {}, () => undefined)
  }
  process.on('message', (message) => {
    if (isQuestion(message, answers)) void answer(message)
  })
}

let questions = 0

/** In the parent; null when the child is gone or does not answer in time. */
export const askChild = <What extends Asked>(
  child: ChildProcess,
  ask: What,
): Promise<Awaited<ReturnType<ChildAnswers[What]>> | null> =>
  new Promise((resolve) => {
    questions += 1
    const id = questions
    const end = (answer: Awaited<ReturnType<ChildAnswers[What]>> | null): void => {
      clearTimeout(timer)
      child.off('message', hear)
      resolve(answer)
    }
    const hear = (message: unknown): void => {
      if (hasId(message) && message.id === id)
        end((message as Reply).answer as Awaited<ReturnType<ChildAnswers[What]>>)
    }
    const timer = setTimeout(() => end(null), TIMEOUT_MS)
    child.on('message', hear)
    const question: Question = { ask, id }
    child.send(question, (error) => {
      if (error !== null) end(null)
    })
  })
