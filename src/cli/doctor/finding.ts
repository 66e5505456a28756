/** What a check of the doctor says. */
export interface Finding {
  readonly check: string
  readonly level: 'ok' | 'warning' | 'error' | 'skipped'
  readonly text: string
  /** What to do; null when nothing is. */
  readonly remedy: string | null
}

export const ok = (check: string, text: string): Finding => ({ check, level: 'ok', text, remedy: null })
export const warning = (check: string, text: string, remedy: string): Finding => ({
  check,
  level: 'warning',
  text,
  remedy,
})
export const problem = (check: string, text: string, remedy: string): Finding => ({
  check,
  level: 'error',
  text,
  remedy,
})
export const skipped = (check: string, text: string): Finding => ({
  check,
  level: 'skipped',
  text,
  remedy: null,
})
