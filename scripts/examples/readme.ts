/** What the README of an example tells a newcomer to type, and what it promises to answer. */
import { readFileSync } from 'node:fs'

export interface Instructions {
  /** Typed before the program is there. */
  readonly prepare: readonly string[]
  /** The program. */
  readonly start: string
  /** Typed in another terminal while it runs; none for a program that ends by itself. */
  readonly meanwhile: readonly string[]
  /** Lines that the program prints. */
  readonly output: readonly string[]
  readonly needsPostgres: boolean
  readonly needsKafka: boolean
}

const BLOCK = /^```(sh|text output)\n([\s\S]*?)^```$/gm

const linesOf = (text: string): string[] => text.split('\n').filter((line) => line !== '')

export const readInstructions = (path: string): Instructions => {
  const text = readFileSync(path, 'utf8')
  const blocks = [...text.matchAll(BLOCK)].map(([, kind, body = '']) => ({ kind, lines: linesOf(body) }))
  const [first, ...others] = blocks.filter(({ kind }) => kind === 'sh').map(({ lines }) => lines)
  const output = blocks.filter(({ kind }) => kind !== 'sh').flatMap(({ lines }) => lines)
  const start = first?.at(-1)
  if (first === undefined || start === undefined || output.length === 0) {
    throw new Error(
      `${path} must say how to start it, in a block of sh, and what it prints, in one of text output`,
    )
  }
  return {
    prepare: first.slice(0, -1),
    start,
    meanwhile: others.flat(),
    output,
    needsPostgres: text.includes('DATABASE_URL'),
    needsKafka: text.includes('KAFKA_URL'),
  }
}
