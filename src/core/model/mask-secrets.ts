/**
 * Takes passwords out of a text: of addresses (`postgres://shop:secret@db`), of settings (`password=secret`) and of
 * authorization headers. Texts of errors come from drivers and applications, and some quote what they connect to.
 * What is not a secret may be masked with it; the other way round would be worse.
 */

const MASK = '***'

/** Cut where an address cannot go on. Each word is looked through a few times, so the time grows with the text alone. */
const WORD = /[^\s"'`<>]+/g

/** Of a text that is one address: everything up to its last @, because a password may have @ and / in it. */
export const maskAddress = (word: string): string => {
  const at = word.lastIndexOf('@')
  // Also where the colon before it is missing: that is when an address is quoted as a mistake.
  const begin = at < 0 ? -1 : word.indexOf('//')
  if (begin < 0 || begin > at) return word
  const user = begin + 2
  const colon = word.indexOf(':', user)
  const slash = word.indexOf('/', user)
  if (colon >= 0 && colon < at) return `${word.slice(0, colon + 1)}${MASK}${word.slice(at)}`
  // A path with an @ in it, such as that of somebody's mailbox.
  if (slash >= 0 && slash < at) return word
  return `${word.slice(0, user)}${MASK}${word.slice(at)}`
}

const SETTING =
  /\b((?:[\w-]{0,40}(?:passwd|password|passphrase|secret|api[-_]?key|access[-_]?key|private[-_]?key)|pwd|(?:access|auth|refresh|id|session)[-_]?token)["'`]?\s{0,8}[=:]\s{0,8})("[^"]*"|'[^']*'|`[^`]*`|[^\s,;&"'`}\])]+)/gi

const AUTHORIZATION = /\b(authorization["'`]?\s{0,8}[=:]\s{0,8}["'`]?)[^"'`\r\n,;]+/gi
const BEARER = /\b(bearer|basic)\s{1,8}[\w+/.~-]{16,}=*/gi

export const maskSecrets = (text: string): string => {
  // Most texts have nothing of the kind.
  if (!/[@=:]|bearer|basic/i.test(text)) return text
  const addresses = text.includes('//') && text.includes('@') ? text.replace(WORD, maskAddress) : text
  return addresses
    .replace(AUTHORIZATION, `$1${MASK}`)
    .replace(SETTING, `$1${MASK}`)
    .replace(BEARER, `$1 ${MASK}`)
}
