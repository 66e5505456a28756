#!/usr/bin/env node
/** The program `posthaste`: understands the arguments, runs one command, and ends with its exit code. */
import { readFileSync } from 'node:fs'
import { Answers } from './answer.ts'
import { COMMANDS } from './commands/index.ts'
import { EXIT } from './exit-codes.ts'
import { describeFailure, failureText, Interrupted } from './failures.ts'
import { commandHelp, overview } from './help.ts'
import { checkOperands, findCommand, type Parsed, parse, unknownCommand } from './parse.ts'
import { Session, type Streams } from './session.ts'
import { painter, wantsColour } from './terminal.ts'
import { cleanLines } from './text.ts'

const { stdout, stderr } = process
const answers = new Answers(stdout)
const streams: Streams = { stdout, stderr, environment: process.env, answers }
const paint = painter(wantsColour(stdout, process.env, process.argv.includes('--no-color')))

/** The same file from the sources and from the package. */
const version = (): string => {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return `${(JSON.parse(text) as { readonly version: string }).version}\n`
}

/** The text that was asked for; null when something is to be done. */
const helpFor = (args: readonly string[]): string | null => {
  const [first, ...others] = args
  if (args.length === 0 || first === '--help' || first === '-h') return overview(COMMANDS, paint)
  if (first === '--version' || first === '-v') return version()
  if (first !== 'help') return null
  const words = others.filter((word) => !word.startsWith('-'))
  if (words.length === 0) return overview(COMMANDS, paint)
  const found = findCommand(words, COMMANDS)
  if (found !== null) return commandHelp(found.command, COMMANDS, paint)
  throw unknownCommand(words, COMMANDS)
}

const tell = (help: string, isJson: boolean): void => {
  if (isJson) answers.give({ ok: true, text: help.trimEnd() })
  else stdout.write(help)
}

const fail = (error: unknown, isJson: boolean): number => {
  const failure = describeFailure(error)
  const { exitCode, code, message, hint, told } = failure
  const colour = painter(wantsColour(stderr, process.env, process.argv.includes('--no-color')))
  stderr.write(`${colour('red', 'posthaste:')} ${isJson ? message : failureText(failure)}\n`)
  if (hint !== null) stderr.write(`${colour('dim', hint)}\n`)
  if (isJson) answers.give({ ok: false, ...told, error: { code, message, exitCode } })
  return exitCode
}

/** Once is enough: what is said to a terminal that is gone says so again. */
let isHungUp = false

/** The answer is one JSON object on stdout. */
const isAnswering = process.argv.includes('--json')

/** Those whose reader left. */
const unread = new Set<NodeJS.WriteStream>()

/** Ends what the command does then, as a signal would; false where it only shows something, and may end at once. */
let stopUnread = (): boolean => false

/** The exit code of what was said; from then on nothing changes it but that nobody heard, also while outboxes are closed. */
let said: number | null = null

const runCommand = async (parsed: Parsed): Promise<number> => {
  const session = new Session(parsed, streams)
  const interrupt = (signal: NodeJS.Signals): void => {
    // Whoever asked for an answer gets one, also where the command could not give it.
    if (!session.interrupt(signal)) leave(said ?? fail(new Interrupted('stopped'), session.isJson))
  }
  process.on('SIGINT', interrupt)
  process.on('SIGTERM', interrupt)
  // Whoever closes a terminal wants what runs in it to end, as by Ctrl-C. Where there is none a worker takes it for a wish.
  // The shell says it and then the kernel does, but nobody is in a hurry.
  if (stdout.isTTY || stderr.isTTY)
    process.on('SIGHUP', (signal) => {
      if (isHungUp || session.isInterrupted) return
      isHungUp = true
      interrupt(signal)
    })
  stopUnread = () => session.isInterrupted || session.interrupt('SIGPIPE')
  let exitCode: number
  try {
    checkOperands(parsed)
    const result = await parsed.command.run(session)
    exitCode = result.exitCode ?? EXIT.ok
    if (session.isJson) answers.give({ ok: exitCode === EXIT.ok, ...result.json })
  } catch (error) {
    exitCode = fail(error, session.isJson)
  }
  said = exitCode
  // An outbox that cannot be closed must not change the answer.
  await session.close().catch(() => undefined)
  return exitCode
}

const main = async (args: readonly string[]): Promise<number> => {
  try {
    const help = helpFor(args)
    if (help !== null) {
      tell(help, args.includes('--json'))
      return EXIT.ok
    }
    const parsed = parse(args, COMMANDS)
    if (parsed.values.help === true) {
      tell(commandHelp(parsed.command, COMMANDS, paint), parsed.values.json === true)
      return EXIT.ok
    }
    return await runCommand(parsed)
  } catch (error) {
    return fail(error, args.includes('--json'))
  }
}

let isCrashing = false

/** Nobody heard the answer. Of one for programs, on stdout, notes beside it say nothing. */
const isUnheard = (): boolean => unread.has(stdout) || (unread.size > 0 && !answers.isGiven)

/** Pools of the user's module may keep the process alive, so it ends by itself, once everything is written. */
const leave = (exitCode: number): void => {
  // A failure says more than that nobody heard of it.
  const isHeard = (): boolean => isCrashing || exitCode === EXIT.failed || !isUnheard()
  // A turn later, so that a stream whose reader is gone can say so first.
  const end = (): void => void setImmediate(() => process.exit(isHeard() ? exitCode : EXIT.pipe))
  stdout.write('', () => stderr.write('', end))
}

const readerLeft =
  (stream: NodeJS.WriteStream) =>
  (error: NodeJS.ErrnoException): void => {
    if (error.code === 'EPIPE') {
      // Each later line says so again.
      if (unread.has(stream)) return
      unread.add(stream)
      // What has its answer is about to end by itself.
      if (said !== null || isCrashing || stopUnread()) return
      // An answer for programs is still heard, whoever listens to the notes beside it.
      if (unread.has(stdout) || !isAnswering) process.exit(EXIT.pipe)
      return
    }
    if (error.code !== 'EIO' || !stream.isTTY) throw error
    // The terminal was closed, and not everybody gets the signal that says so.
    process.emit('SIGHUP', 'SIGHUP')
  }

/**
 * An error that nobody caught, of a listener for example: a crash, which rows survive as any other. What its code means
 * elsewhere is not meant here, because a supervisor starts a process that crashed again.
 */
const crash = (error: unknown): void => {
  if (isCrashing) process.exit(EXIT.failed)
  isCrashing = true
  const { message, stack } = error instanceof Error ? error : new Error(String(error))
  // Where it comes from is for people.
  for (const line of cleanLines(stack ?? message)) stderr.write(`${line}\n`)
  const failure = new Error(`an error that nobody caught: ${message}`)
  leave(said ?? fail(failure, process.argv.includes('--json')))
}

/**
 * Who else listens to these decides about them, as without this program. Many of them end the process only where they
 * are alone, so we are not there beside them.
 */
const hearCrashes = (): void => {
  const isOther = (event: string | symbol, listener: unknown): boolean =>
    event === 'uncaughtException' && listener !== crash
  const hearAlone = (): void => {
    if (process.listenerCount('uncaughtException') === 0) process.on('uncaughtException', crash)
  }
  process.on('newListener', (event, listener) => {
    if (isOther(event, listener)) process.off('uncaughtException', crash)
  })
  process.on('removeListener', (event, listener) => {
    if (isOther(event, listener)) hearAlone()
  })
  hearAlone()
}

hearCrashes()
for (const stream of [stdout, stderr]) stream.on('error', readerLeft(stream))
leave(await main(process.argv.slice(2)))
