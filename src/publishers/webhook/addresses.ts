/**
 * Where a webhook may go. Its address comes from somebody else, so it must not lead into our own network: every address
 * that a name has is looked at, and the connection is made to one that was looked at, not to what the name means a
 * moment later.
 */
import { lookup as systemLookup } from 'node:dns/promises'
import { BlockList, isIP } from 'node:net'
import { PermanentError } from '../../core/errors.ts'

export interface Address {
  readonly address: string
  readonly family: 4 | 6
}

/** All addresses of a name. */
export type Lookup = (hostname: string) => Promise<readonly Address[]>

/** Not routed in the Internet, or not to one host of it. IANA's registries of special addresses. */
const SPECIAL_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  // Azure's own service, on an address that looks public.
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '192.175.48.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]

/** What lies outside of it is local, multicast, reserved, or an IPv4 address in disguise. */
const GLOBAL_V6 = ['2000::/3']

/** Inside of it: documentation, benchmarks, and tunnels that end at an IPv4 address of the sender's choice. */
const SPECIAL_V6 = ['2001::/23', '2001:db8::/32', '2002::/16', '2620:4f:8000::/48', '3fff::/20']

/** `10.0.0.0/8`, `::1/128`, or one address. */
export const blockListOf = (networks: readonly string[]): BlockList => {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', bits, ...rest] = network.split('/')
    const family = isIP(address)
    const longest = family === 4 ? 32 : 128
    const prefix = bits === undefined ? longest : Number(bits)
    const isWell = family !== 0 && rest.length === 0 && bits !== '' && Number.isInteger(prefix)
    if (!isWell || prefix < 0 || prefix > longest) throw new RangeError(`${network} is no network`)
    list.addSubnet(address, prefix, family === 4 ? 'ipv4' : 'ipv6')
  }
  return list
}

const specialV4 = blockListOf(SPECIAL_V4)
const globalV6 = blockListOf(GLOBAL_V6)
const specialV6 = blockListOf(SPECIAL_V6)

/** By what the address is, whatever the resolver calls it: that is what is connected to. */
const isAllowed = (address: string, allowed: BlockList): boolean => {
  switch (isIP(address)) {
    case 4:
      return !specialV4.check(address, 'ipv4') || allowed.check(address, 'ipv4')
    case 6: {
      const isPublic = globalV6.check(address, 'ipv6') && !specialV6.check(address, 'ipv6')
      return isPublic || allowed.check(address, 'ipv6')
    }
    default:
      return false
  }
}

export const lookupAll: Lookup = async (hostname) =>
  (await systemLookup(hostname, { all: true })) as readonly Address[]

const refused = (url: URL, why: string): PermanentError =>
  new PermanentError(`the webhook to ${url.host} is not sent: ${why}`, { host: url.host })

export interface Guard {
  readonly lookup: Lookup
  /** Networks that may be reached although they are not public. */
  readonly allowed: BlockList
  readonly allowHttp: boolean
}

/** The address, or why nothing is sent there; what no resolver has to be asked about. */
export const readUrl = (text: string, { allowHttp }: Pick<Guard, 'allowHttp'>): URL | PermanentError => {
  let url: URL
  try {
    url = new URL(text)
  } catch (cause) {
    return new PermanentError('the webhook is not sent: its address is no URL', { cause })
  }
  if (url.protocol === 'http:' && !allowHttp) return refused(url, 'http:// needs the option allowHttp')
  if (!['https:', 'http:'].includes(url.protocol)) return refused(url, `${url.protocol}// is not https://`)
  if (url.username !== '' || url.password !== '')
    return refused(url, 'its URL has a user or a password in it')
  return url
}

/** One address of the host, after all of them were found good. */
export const safeAddress = async (url: URL, { lookup, allowed }: Guard): Promise<Address> => {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const family = isIP(host)
  const addresses =
    family === 0 ? await lookup(host) : [{ address: host, family: family as Address['family'] }]
  // A zone names an interface of this machine.
  const bad = addresses.find((one) => one.address.includes('%') || !isAllowed(one.address, allowed))
  if (bad !== undefined)
    throw refused(url, `${bad.address} is not a public address, nor in a network of the option allowNetworks`)
  const [first] = addresses
  if (first === undefined) throw Object.assign(new Error(`${host} has no address`), { code: 'ENOTFOUND' })
  // A family that is not the address's own would make the socket fail where nobody listens.
  return { address: first.address, family: isIP(first.address) as Address['family'] }
}
