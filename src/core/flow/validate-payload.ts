/**
 * Part of stage 1. Receives a checked draft; hands on the value to serialise: what the definition's schema
 * made of the payload. Answers at once when the schema does, because a synchronous publish cannot wait.
 */
import type { StandardIssue, StandardResult, StandardSchema } from '../standard-schema.ts'
import { type CheckedDraft, refuse } from './check-draft.ts'

/** Issues named in the message; the rest are counted. */
const ISSUES_NAMED = 5

const pathOf = (issue: StandardIssue): string => {
  const segments = (issue.path ?? []).map((part) => (typeof part === 'object' ? part.key : part))
  return segments.map((key) => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`)).join('')
}

const refuseIssues = (issues: readonly StandardIssue[], type: string): Error => {
  const named = issues.slice(0, ISSUES_NAMED).map((issue) => {
    const path = pathOf(issue)
    return path === '' ? issue.message : `${path.replace(/^\./, '')}: ${issue.message}`
  })
  const more = issues.length > named.length ? ` (and ${issues.length - named.length} more)` : ''
  const first = issues[0]
  const error = refuse(`$${first === undefined ? '' : pathOf(first)}`, 'schema', '')
  error.message = `The payload does not fit the schema of "${type}": ${named.join('; ')}${more}.`
  return error
}

const settle = (result: StandardResult<unknown>, type: string): unknown => {
  if (result.issues) throw refuseIssues(result.issues, type)
  return result.value
}

const isPromise = (value: unknown): value is PromiseLike<unknown> =>
  typeof (value as { then?: unknown } | null | undefined)?.then === 'function'

const ask = (schema: StandardSchema, value: unknown, type: string): unknown => {
  const threw = (cause: unknown): never => {
    throw refuse('payload', 'schema-threw', `could not be checked: the schema of "${type}" threw`, cause)
  }
  let answer: StandardResult<unknown> | Promise<StandardResult<unknown>>
  try {
    answer = schema['~standard'].validate(value)
  } catch (cause) {
    return threw(cause)
  }
  if (!isPromise(answer)) return settle(answer, type)
  return Promise.resolve(answer).then((result) => settle(result, type), threw)
}

/** The value to serialise, or a promise of it when the schema is asynchronous. */
export const validatePayload = (draft: CheckedDraft, payload: unknown): unknown => {
  const schema = draft.definition?.schema ?? null
  return schema === null ? payload : ask(schema, payload, draft.type)
}

/** For synchronous publishing: an asynchronous schema is refused rather than skipped. */
export const requireSync = (draft: CheckedDraft, value: unknown): unknown => {
  if (!isPromise(value)) return value
  // Nobody will look at that answer any more, so its rejection must not end the process.
  Promise.resolve(value).catch(() => undefined)
  throw refuse(
    'payload',
    'async-schema',
    `cannot be published synchronously: the schema of "${draft.type}" is asynchronous`,
  )
}

export { isPromise }
