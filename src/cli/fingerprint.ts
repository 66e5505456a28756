/** Errors of the same kind look alike once what differs from one to the next is taken out. */
import { createHash } from 'node:crypto'
import type { DeliveryView } from '../core/spi/index.ts'

const VARYING: readonly (readonly [RegExp, string])[] = [
  [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, '<id>'],
  [/\b\d{4}-\d{2}-\d{2}[T ][\d:.]+Z?/g, '<time>'],
  [/"[^"]*"|'[^']*'|`[^`]*`|“[^”]*”/g, '<text>'],
  [/\b[\w.+-]+@[\w-]+\.[\w.-]+/g, '<address>'],
  [/\b0x[0-9a-f]+\b|\b[0-9a-f]{12,}\b/gi, '<hex>'],
  [/\d+/g, '<n>'],
]

/** The message without ids, numbers, times and quoted values. */
export const template = (message: string): string =>
  VARYING.reduce((text, [pattern, word]) => text.replaceAll(pattern, word), message).slice(0, 300)

/** Eight letters that name the kind: destination, type and template. */
export const fingerprint = ({ destination, type, lastError }: DeliveryView): string =>
  createHash('sha256')
    .update(`${destination}\n${type}\n${template(lastError ?? '')}`)
    .digest('hex')
    .slice(0, 8)
