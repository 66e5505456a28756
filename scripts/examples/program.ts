/** A program under way: what it printed, and how it ended. */
import { type ChildProcess, spawn } from 'node:child_process'

const PATIENCE_MS = 600_000

export class Program {
  readonly #child: ChildProcess
  readonly #ended: Promise<number>
  #printed = ''
  #tell: () => void = () => {}
  #code: number | null = null

  constructor(command: string, cwd: string, env: NodeJS.ProcessEnv) {
    // A group of its own: npm starts a shell, which starts the program.
    this.#child = spawn('bash', ['-c', command], {
      cwd,
      env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#printed += text
        this.#tell()
      })
    }
    this.#ended = new Promise((resolve) => {
      this.#child.once('close', (code, signal) => {
        this.#code = code ?? (signal === null ? 1 : 128)
        this.#tell()
        resolve(this.#code)
      })
    })
  }

  /** Resolves when it has printed all of this, in whatever order. */
  async says(wanted: readonly string[]): Promise<void> {
    const missing = (): string[] => wanted.filter((text) => !this.#printed.includes(text))
    await this.#inTime(`to say ${JSON.stringify(wanted)}`, async () => {
      while (missing().length > 0) {
        if (this.#code !== null) throw new Error(`it ended with code ${this.#code} without ${missing()[0]}`)
        await new Promise<void>((resolve) => {
          this.#tell = resolve
        })
      }
    })
  }

  async ends(): Promise<void> {
    await this.#inTime('to end', () => this.#ended)
  }

  async endsWell(): Promise<void> {
    await this.#inTime('to end', async () => {
      const code = await this.#ended
      if (code !== 0) throw new Error(`it ended with code ${code}`)
    })
  }

  /** As a platform does it. */
  terminate(signal: NodeJS.Signals = 'SIGTERM'): void {
    if (this.#code === null && this.#child.pid !== undefined) process.kill(-this.#child.pid, signal)
  }

  async #inTime<T>(what: string, wait: () => Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`waited ${PATIENCE_MS} ms for it ${what}`)), PATIENCE_MS)
    })
    try {
      return await Promise.race([wait(), late])
    } catch (error) {
      throw new Error(`${(error as Error).message}\nIt printed:\n${this.#printed}`)
    } finally {
      clearTimeout(timer)
    }
  }
}
