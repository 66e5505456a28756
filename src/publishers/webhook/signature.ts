/** Signatures as Standard Webhooks describes them: HMAC-SHA256 over id, time and body. */
import { createHmac } from 'node:crypto'
import { InvalidOptionError } from '../../core/errors.ts'

const PREFIX = 'whsec_'
/** Bounds of the standard. */
const [LEAST_BYTES, MOST_BYTES] = [24, 64]

/** `whsec_` and base64. The value is never shown. */
export const keyOf = (secret: unknown): Buffer => {
  const text = typeof secret === 'string' ? secret : ''
  const encoded = text.startsWith(PREFIX) ? text.slice(PREFIX.length) : text
  const key = Buffer.from(encoded, 'base64')
  const isBase64 = /^[A-Za-z0-9+/]+={0,2}$/.test(encoded)
  if (isBase64 && key.length >= LEAST_BYTES && key.length <= MOST_BYTES) return key
  throw new InvalidOptionError(
    `a webhook's secret must be "${PREFIX}" and base64 of ${LEAST_BYTES} to ${MOST_BYTES} bytes; ` +
      `make one: node -p "'${PREFIX}' + crypto.randomBytes(32).toString('base64')"`,
    { option: 'secret', value: '(hidden)' },
  )
}

/** With every secret, so that receivers can change from one to the next. */
export const signatureOf = (
  keys: readonly Buffer[],
  id: string,
  timestamp: number,
  body: string | Uint8Array,
): string =>
  keys
    .map(
      (key) => `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`,
    )
    .join(' ')
