/** How a supervisor asks its children what they measured: over the channel that every child has to its parent. */
import type { ChildProcess } from 'node:child_process'

interface Question {
  readonly ask: 'metrics'
  readonly id: number
}

interface Reply {
  readonly metrics: string
  readonly id: number
}

/** Less than a scrape usually waits. */
const TIMEOUT_MS = 2_000

const hasId = (message: unknown): message is { readonly id: number } =>
  typeof (message as { readonly id?: unknown } | null)?.id === 'number'

const isQuestion = (message: unknown): message is Question =>
  hasId(message) && (message as Partial<Question>).ask === 'metrics'

/** In the child. */
export const answerMetrics = (text: () => string): void => {
  process.on('message', (message) => {
    if (!isQuestion(message) || process.send === undefined) return
    const reply: Reply = { metrics: text(), id: message.id }
    // The parent may be gone by now; then nobody wants to know.
    process.send(reply, undefined, {}, () => undefined)
  })
}

let questions = 0

/** In the parent; null when the child is gone or does not answer in time. */
export const askMetrics = (child: ChildProcess): Promise<string | null> =>
  new Promise((resolve) => {
    questions += 1
    const id = questions
    const end = (text: string | null): void => {
      clearTimeout(timer)
      child.off('message', hear)
      resolve(text)
    }
    const hear = (message: unknown): void => {
      if (hasId(message) && message.id === id) end((message as Reply).metrics)
    }
    const timer = setTimeout(() => end(null), TIMEOUT_MS)
    child.on('message', hear)
    const question: Question = { ask: 'metrics', id }
    child.send(question, (error) => {
      if (error !== null) end(null)
    })
  })
