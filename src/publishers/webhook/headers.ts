/** The headers of a request: those of the event, those of the endpoint, and nothing that Node would refuse to send. */
import { validateHeaderName, validateHeaderValue } from 'node:http'
import { InvalidOptionError, PermanentError } from '../../core/errors.ts'
import { asciiValue, type Message } from '../shared/message.ts'

/** Said by the connection or by us, never by an event or an endpoint. */
const NOT_PASSED_ON = new Set([
  'host',
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
  'content-length',
  'content-encoding',
  'webhook-id',
  'webhook-timestamp',
  'webhook-signature',
])

type Headers = Readonly<Record<string, string>>

const check = (name: string, value: string): void => {
  validateHeaderName(name)
  validateHeaderValue(name, value)
}

/** What cannot be sent is a mistake of whoever set up the endpoint. The value is never shown. */
export const checkEndpointHeaders = (headers: Headers): void => {
  for (const [name, value] of Object.entries(headers)) {
    try {
      check(name, value)
    } catch (cause) {
      throw new InvalidOptionError(
        `a webhook's header ${JSON.stringify(name)} cannot be sent: its name must be a token of HTTP, ` +
          'its value Latin-1 without line breaks or other control characters',
        { option: 'headers', value: '(hidden)', cause },
      )
    }
  }
}

/** What no request can carry is wrong with the event, and says nothing about the place. */
const eventHeaders = ({ headers, contentType }: Message): [string, string][] => {
  let name = ''
  try {
    const passed: [string, string][] = []
    for (const [given, text] of headers) {
      name = given.toLowerCase()
      if (NOT_PASSED_ON.has(name)) continue
      const value = asciiValue(text)
      check(name, value)
      passed.push([name, value])
    }
    name = 'content-type'
    check(name, contentType)
    return passed
  } catch (cause) {
    throw new PermanentError(`the event's header ${JSON.stringify(name)} cannot be sent with HTTP`, { cause })
  }
}

/** The endpoint's own come after those of the event, but the content type is that of the body. */
export const headersOf = (message: Message, ofEndpoint: Headers): Record<string, string> => {
  checkEndpointHeaders(ofEndpoint)
  const own = Object.entries(ofEndpoint)
    .map(([name, value]) => [name.toLowerCase(), value] as const)
    .filter(([name]) => !NOT_PASSED_ON.has(name))
  return { ...Object.fromEntries([...eventHeaders(message), ...own]), 'content-type': message.contentType }
}
