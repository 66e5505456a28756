/** Processes of two builds on one database. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Place } from '../../chaos/crew/messages.ts'
import { TYPESCRIPT } from '../../scripts/run.ts'
import type { Ground } from './grounds.ts'
import type { FromMember, MemberTask, Publish } from './member.ts'

/** Several processes start and take over lanes meanwhile, on a machine that may be busy. */
const PATIENCE_MS = 60_000
const LOOK_EVERY_MS = 20

export class Member {
  readonly #child: ChildProcess
  readonly #exited: Promise<number | null>

  constructor(task: MemberTask) {
    this.#child = fork(new URL('./member.ts', import.meta.url), [JSON.stringify(task)], {
      execArgv: [...TYPESCRIPT],
    })
    this.#exited = new Promise((resolve) => this.#child.once('exit', resolve))
  }

  get pid(): number {
    return this.#child.pid as number
  }

  async told(kind: FromMember['kind']): Promise<this> {
    const heard = once(this.#child, 'message').then(([message]: FromMember[]) =>
      message?.kind === kind ? null : `said ${JSON.stringify(message)}`,
    )
    const problem = await Promise.race([heard, this.#exited.then((code) => `ended with ${code}`)])
    if (problem !== null) throw new Error(`a member was to be ${kind}, and ${problem}`)
    return this
  }

  async publish(message: Publish): Promise<void> {
    const published = this.told('published')
    this.#child.send(message)
    await published
  }

  /** As a deployment ends it; the exit code. */
  async stop(): Promise<number | null> {
    this.#child.kill('SIGTERM')
    return await this.#exited
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#exited
  }
}

export class Crew {
  readonly #folder = mkdtempSync(join(tmpdir(), 'posthaste-compat-'))
  readonly #place: Place
  readonly #name: string
  readonly #laneLeaseMs: number
  readonly #members: Member[] = []
  readonly ledger = join(this.#folder, 'ledger')

  constructor({ place, name }: Ground, laneLeaseMs: number) {
    this.#place = place
    this.#name = name
    this.#laneLeaseMs = laneLeaseMs
    writeFileSync(this.ledger, '')
  }

  async member(build: string | null, serves: boolean): Promise<Member> {
    const member = new Member({
      place: this.#place,
      name: this.#name,
      build,
      ledger: this.ledger,
      serves,
      laneLeaseMs: this.#laneLeaseMs,
    })
    this.#members.push(member)
    return await member.told('ready')
  }

  /** Looks at the ledger now and then, because nobody tells of what a killed process wrote. */
  async until(what: string, condition: () => boolean): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS
    while (!condition()) {
      if (performance.now() > deadline) throw new Error(`${what}: not within ${PATIENCE_MS} ms`)
      await pause(LOOK_EVERY_MS)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const member of this.#members) await member.kill()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
