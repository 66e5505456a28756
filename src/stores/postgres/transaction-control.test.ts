import { describe, expect, it } from 'vitest'
import { transactionControl } from './transaction-control.ts'

describe('statements that begin or end transactions', () => {
  it.each([
    ['COMMIT', 'COMMIT'],
    ['  commit;', 'COMMIT'],
    ['SELECT 1; rollback', 'ROLLBACK'],
    ['/* x */ savepoint a', 'SAVEPOINT'],
    ['-- x\nRELEASE a', 'RELEASE'],
    ['START TRANSACTION', 'START'],
    ['ABORT', 'ABORT'],
    ["PREPARE TRANSACTION 'x'", 'PREPARE TRANSACTION'],
    ["SELECT E'\\''; COMMIT", 'COMMIT'],
    ["SELECT '\\'; COMMIT --'", 'COMMIT'],
    ['SELECT $$x$$; END', 'END'],
  ])('%s', (sql, keyword) => {
    expect(transactionControl(sql)).toBe(keyword)
  })

  it.each([
    'SELECT 1',
    "SELECT '; COMMIT'",
    'SELECT "; COMMIT"',
    'DO $$ BEGIN PERFORM 1; END $$',
    'DO $x$ BEGIN; COMMIT; $$ END; $x$',
    '-- COMMIT',
    '/* ; COMMIT */ SELECT 1',
    'INSERT INTO commit VALUES (1)',
    'PREPARE x AS SELECT 1',
    "SELECT E'a\\'; COMMIT; '",
    '',
  ])('%s is none', (sql) => {
    expect(transactionControl(sql)).toBeNull()
  })
})
