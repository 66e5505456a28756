import { describe, expect, it } from 'vitest'
import { transactionControl } from './transaction-control.ts'

describe('statements that begin or end transactions', () => {
  it('are found wherever they hide', () => {
    const found: [string, string][] = [
      ['BEGIN', 'BEGIN'],
      ['  begin immediate', 'BEGIN'],
      ['COMMIT;', 'COMMIT'],
      ['end transaction', 'END'],
      ['Rollback to x', 'ROLLBACK'],
      ['SAVEPOINT a', 'SAVEPOINT'],
      ['/* hi */ RELEASE a', 'RELEASE'],
      ['-- hi\nCOMMIT', 'COMMIT'],
      ['INSERT INTO a VALUES (1); COMMIT', 'COMMIT'],
      [';;;ROLLBACK', 'ROLLBACK'],
      ["SELECT ';' ; SAVEPOINT x", 'SAVEPOINT'],
      ['CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; END; COMMIT', 'COMMIT'],
    ]
    for (const [sql, keyword] of found) expect([sql, transactionControl(sql)]).toEqual([sql, keyword])
  })

  it('are not seen where there are none', () => {
    const harmless = [
      '',
      'SELECT 1',
      "INSERT INTO a VALUES ('BEGIN; COMMIT')",
      'SELECT "commit" FROM [begin]',
      '-- COMMIT\nSELECT 1',
      '/* ; COMMIT */ SELECT 1',
      'SELECT CASE WHEN 1 THEN 2 END',
      'CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE b SET c = CASE 1 WHEN 1 THEN 2 END; DELETE FROM b; END',
      'CREATE TEMP TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; END; SELECT 1',
      'UPDATE a SET released = 1',
      "SELECT 'unterminated",
    ]
    for (const sql of harmless) expect([sql, transactionControl(sql)]).toEqual([sql, null])
  })
})
