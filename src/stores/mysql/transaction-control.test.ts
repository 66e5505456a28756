import { describe, expect, it } from 'vitest'
import { transactionControl } from './transaction-control.ts'

describe('statements that begin or end transactions', () => {
  it.each([
    ['COMMIT', 'COMMIT'],
    ['  commit;', 'COMMIT'],
    ['SELECT 1; rollback', 'ROLLBACK'],
    ['/* x */ savepoint a', 'SAVEPOINT'],
    ['-- x\nRELEASE SAVEPOINT a', 'RELEASE'],
    ['# x\nSTART TRANSACTION', 'START'],
    ["SELECT '\\''; COMMIT", 'COMMIT'],
    ['SELECT "a\\""; BEGIN', 'BEGIN'],
    ['/*! COMMIT */', 'COMMIT'],
    ['/*!50000 COMMIT */', 'COMMIT'],
    ['/*M!100000 ROLLBACK */', 'ROLLBACK'],
    ['SET autocommit = 1', 'SET AUTOCOMMIT'],
    ['SET @@session.autocommit = 1', 'SET AUTOCOMMIT'],
    ['set session sql_mode = "", AUTOCOMMIT = 1', 'SET AUTOCOMMIT'],
    ['ALTER TABLE x ADD y INT', 'ALTER'],
    ['create index a on b (c)', 'CREATE'],
    ['TRUNCATE x', 'TRUNCATE'],
    ['LOCK TABLES x WRITE', 'LOCK'],
  ])('%s', (sql, keyword) => {
    expect(transactionControl(sql)).toBe(keyword)
  })

  it.each([
    'SELECT 1',
    "SELECT '; COMMIT'",
    "SELECT 'a\\'; COMMIT; '",
    'SELECT `; COMMIT`',
    '-- COMMIT',
    '# COMMIT',
    '/* ; COMMIT */ SELECT 1',
    'INSERT INTO commits VALUES (1)',
    'CREATE TEMPORARY TABLE x (id INT)',
    'CREATE OR REPLACE TEMPORARY TABLE x (id INT)',
    'DROP TEMPORARY TABLE x',
    'SET @x = 1',
    'SELECT 1--1',
    '',
  ])('%s is none', (sql) => {
    expect(transactionControl(sql)).toBeNull()
  })
})
