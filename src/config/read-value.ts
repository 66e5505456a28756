/** One value of a file, a variable or a flag, as the kind of its setting wants it. Bounds are the core's business. */
import { parseDuration } from './duration.ts'
import { refuseValue } from './errors.ts'
import type { Setting } from './setting-table.ts'

const HOUR_MS = 3_600_000
const LEVELS = ['debug', 'info', 'warn', 'error', 'silent']
const NUMBER = /^-?\d+(?:\.\d+)?$/

/**
 * @param key as the user wrote it, for messages
 * @param where the file, the variable or the flag
 * @param isText from the environment or a flag, where everything is text
 */
export const readValue = (
  setting: Setting,
  key: string,
  value: unknown,
  where: string,
  isText: boolean,
): unknown => {
  const { words = {} } = setting
  if (typeof value === 'string' && Object.hasOwn(words, value.trim())) return words[value.trim()]
  // In a file it can be said outright.
  if (value === null && Object.values(words).includes(null)) return null
  const orWord = ['', ...Object.keys(words)].join(' or ')
  switch (setting.kind) {
    case 'ms':
      return readDuration(key, value, where, 1, isText, orWord)
    case 'hours':
      return readDuration(key, value, where, HOUR_MS, isText, orWord)
    case 'whole':
    case 'number':
      return readNumber(key, value, where, isText, orWord)
    case 'boolean':
      if (typeof value === 'boolean') return value
      if (isText && (value === 'true' || value === '1')) return true
      if (isText && (value === 'false' || value === '0')) return false
      return refuseValue(key, value, 'true or false', where)
    case 'names':
      return readNames(key, value, where)
    case 'text':
      return typeof value === 'string' && value !== '' ? value : refuseValue(key, value, 'text', where)
    case 'level':
      if (typeof value === 'string' && LEVELS.includes(value)) return value
      return refuseValue(key, value, `one of ${LEVELS.join(', ')}`, where)
  }
}

const readNumber = (key: string, value: unknown, where: string, isText: boolean, orWord: string): number => {
  if (typeof value === 'number') return value
  if (isText && typeof value === 'string' && NUMBER.test(value.trim())) return Number(value)
  return refuseValue(key, value, `a number${orWord}`, where)
}

const readDuration = (
  key: string,
  value: unknown,
  where: string,
  unitMs: number,
  isText: boolean,
  orWord: string,
): number => {
  const named = /(?:Ms|Hours|_MS|_HOURS)$/.test(key)
  if (named && typeof value === 'number') return value
  if (named && isText && typeof value === 'string' && NUMBER.test(value.trim())) return Number(value)
  const ms = typeof value === 'string' ? parseDuration(value) : value === 0 ? 0 : null
  if (ms === null)
    return refuseValue(key, value, `a duration such as 500ms, 5s, 10m, 168h or 7d${orWord}`, where)
  if (ms % unitMs !== 0) return refuseValue(key, value, 'whole hours', where)
  return ms / unitMs
}

const readNames = (key: string, value: unknown, where: string): readonly string[] => {
  const list = typeof value === 'string' ? value.split(',').map((name) => name.trim()) : value
  if (Array.isArray(list) && list.every((name) => typeof name === 'string' && name !== '')) return list
  return refuseValue(key, value, 'names of destinations, such as "mailer" or ["mailer", "kafka"]', where)
}
