/** What every service here looks like; one file per service gives one of these. */

/** Servers refuse to run as root, or should; as root we run them as this account. */
export interface Account {
  readonly uid: number
  readonly gid: number
}

/** Where one service lives on this machine, at one start. */
export interface Site {
  readonly name: string
  /** The folder of all services: installed programs lie below it. */
  readonly folder: string
  /** The service's own folder, which the account may write to. */
  readonly home: string
  readonly port: number
  readonly account: Account | null
  /** False: whoever asked prefers speed to surviving a power failure. */
  readonly durable: boolean
  /** The port of a service that this one needs, of the same label if it has one. */
  portOf(name: string): number
  /** One line about what takes time right now. */
  report(text: string): void
}

export interface Command {
  readonly program: string
  readonly args: readonly string[]
  /** Beside what every server gets. */
  readonly env?: Readonly<Record<string, string>>
}

export interface Service {
  readonly name: string
  /** The environment variable that tells tests its address. */
  readonly variable: string
  /** No two services agree in the last two digits: see `ports.ts`. */
  readonly preferredPort: number
  /** How many it takes: its own and those after it. Default 1. */
  readonly ports?: number
  /** Services that must be ready before this one starts. */
  readonly needs: readonly string[]
  /** Asks the server to finish what it does and to end. */
  readonly stopSignal: NodeJS.Signals
  /** Where the programs come from: `debian` needs a Debian, `maven` needs Java and Maven, for `npm` any Linux does. */
  readonly source: 'debian' | 'npm' | 'maven'
  /** Brings the programs, unless they are there. */
  install(site: Site): Promise<void>
  /** Prepares the data, unless they are there, removes what a crash left, and says what to run. */
  start(site: Site): Promise<Command>
  /** True once the server accepts work. */
  ready(port: number): Promise<boolean>
  url(port: number): string
}

/** Something that the person at the keyboard can act on; shown without a stack. */
export class ServicesError extends Error {
  override readonly name = 'ServicesError'
}

/** The administrator's name and password, and the name of the first database, in every service. */
export const LOGIN = 'posthaste'
