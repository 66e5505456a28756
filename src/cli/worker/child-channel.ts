/** What a child has to do with its supervisor, and how that asks it: over the channel between the two. */
import type { ChildProcess } from 'node:child_process'
import type { Session } from '../session.ts'

export const isChild = (): boolean =>
  process.send !== undefined && process.env.POSTHASTE_WORKER_INDEX !== undefined

/** What a child says unasked: that it delivers, and that it stops because nobody reads what it writes any more. */
export type Told = 'ready' | 'unread'

export const tellParent = (what: Told): void => {
  // The parent may be gone by now; then nobody wants to know.
  process.send?.(what, undefined, {}, () => undefined)
}

/** From the first moment on, also while the configuration is loaded. Says when the parent is gone. */
export const heedParent = (session: Session): AbortSignal => {
  const parentGone = new AbortController()
  // Ctrl-C and the end of a terminal reach the whole group; the parent decides what happens, and a parent that is gone
  // decides nothing.
  session.ignored = ['SIGINT', 'SIGHUP']
  // Without a terminal nobody else listens to it yet.
  process.on('SIGHUP', () => undefined)
  // SIGTERM may come from the parent and once more from whoever ends the group. The drain has its bound, and a parent that
  // waits for it kills what takes longer.
  session.isPatient = process.connected
  session.signal.addEventListener('abort', () => {
    if (session.isUnread) tellParent('unread')
  })
  process.once('disconnect', () => {
    session.isPatient = false
    parentGone.abort()
  })
  if (!process.connected) parentGone.abort()
  return parentGone.signal
}

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
    // One without an answer is answered by silence.
    if (isQuestion(message, answers)) answer(message).catch(() => undefined)
  })
}

type Answer<What extends Asked> = Awaited<ReturnType<ChildAnswers[What]>> | null

let questions = 0

const ask = <What extends Asked>(child: ChildProcess, what: What): Promise<Answer<What>> =>
  new Promise((resolve) => {
    questions += 1
    const id = questions
    const end = (answer: Answer<What>): void => {
      clearTimeout(timer)
      child.off('message', hear)
      child.off('disconnect', giveUp)
      resolve(answer)
    }
    const giveUp = (): void => end(null)
    const hear = (message: unknown): void => {
      if (hasId(message) && message.id === id) end((message as Reply).answer as Answer<What>)
    }
    const timer = setTimeout(giveUp, TIMEOUT_MS)
    child.on('message', hear)
    child.on('disconnect', giveUp)
    const question: Question = { ask: what, id }
    child.send(question, (error) => {
      if (error !== null) giveUp()
    })
  })

const underWay = new WeakMap<ChildProcess, Map<Asked, Promise<unknown>>>()

/** In the parent; null when the child is gone or does not answer in time. Who asks while a question is under way shares its answer. */
export const askChild = <What extends Asked>(child: ChildProcess, what: What): Promise<Answer<What>> => {
  const asked = underWay.get(child) ?? new Map<Asked, Promise<unknown>>()
  underWay.set(child, asked)
  const known = asked.get(what) as Promise<Answer<What>> | undefined
  if (known !== undefined) return known
  const answer = ask(child, what).finally(() => asked.delete(what))
  asked.set(what, answer)
  return answer
}
