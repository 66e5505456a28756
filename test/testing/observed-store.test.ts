import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { observeStore } from '../../src/testing/observed-store.ts'

const TURNS = 12

it.each(['queue', 'inspection'])(
  'whoever asks %s twice each time it is told does not ask more and more',
  async (role) => {
    let calls = 0
    let isOver = false
    const ask = async (): Promise<void> => {
      calls += 1
    }
    const seen = observeStore({ [role]: { ask } } as Record<string, { readonly ask: typeof ask }>, {
      changed: () => askTwice(),
    })
    const askTwice = (): void => {
      for (let n = 0; n < 2 && !isOver; n++) void seen[role]?.ask()
    }
    askTwice()
    for (let turn = 0; turn < TURNS; turn++) await nextTurn()
    isOver = true
    expect(calls).toBeLessThanOrEqual(2 * (TURNS + 2))
  },
)
