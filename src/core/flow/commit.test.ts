import { describe, expect, it } from 'vitest'
import { CommitScope, type ScopeParts } from './commit.ts'

describe('a savepoint that is rolled back', () => {
  it('takes along those that were opened after it, with what they have to say', async () => {
    const scope = new CommitScope({} as ScopeParts)
    const outer = await scope.pushFrame(scope.root)
    const inner = await scope.pushFrame(outer)
    const told: string[] = []
    outer.afterRollback.push(() => told.push('outer'))
    inner.afterRollback.push(() => told.push('inner'))
    scope.discardFrame(outer)
    expect(inner.state).toBe('discarded')
    expect(scope.innermost).toBe(scope.root)
    expect(told).toEqual(['outer', 'inner'])
  })
})
