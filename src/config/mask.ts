/** Secrets never leave by a message, a table or a log: whatever looks like one is masked before it is shown. */

const MASK = '***'

/** `scheme://user:password@`, wherever it stands in a text; the password ends at the last @ before a slash or a space. */
const CREDENTIALS = /\b([a-z][a-z0-9+.-]*:\/\/[^\s:/@]*):([^\s/]*)@/gi

/** `password=…` and its kin, in addresses and in settings of drivers. */
const PARAMETER =
  /\b((?:ssl)?(?:password|passwd|pwd|secret|token|api_?key)\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s&;,"']+)/gi

export const maskSecrets = (text: string): string =>
  text.replace(CREDENTIALS, `$1:${MASK}@`).replace(PARAMETER, `$1${MASK}`)
