import { describe, expect, it } from 'vitest'
import { mysqlMigration, mysqlRemoval } from '../mysql/index.ts'
import { postgresMigration, postgresRemoval } from '../postgres/index.ts'
import { sqliteMigration, sqliteRemoval } from '../sqlite/index.ts'
import { splitStatements } from './migration-statements.ts'

describe('statements of a script', () => {
  it('end at their semicolons and nowhere else', () => {
    const script = `-- first; of two
CREATE TABLE a (t text DEFAULT ';''x', "b;c" int, \`d;e\` int /* ; */);
CREATE FUNCTION f() AS $body$ BEGIN a; '; END $body$; SELECT $$;$$;
SELECT 1 - 2 / 3;
`
    expect(splitStatements(script)).toEqual([
      `-- first; of two\nCREATE TABLE a (t text DEFAULT ';''x', "b;c" int, \`d;e\` int /* ; */);`,
      `CREATE FUNCTION f() AS $body$ BEGIN a; '; END $body$;`,
      'SELECT $$;$$;',
      'SELECT 1 - 2 / 3;',
    ])
  })
})

const ALL = {
  postgres: postgresMigration({ to: 4 }),
  'postgres, partitioned': postgresMigration({ to: 4, layout: 'partitioned' }),
  mysql: mysqlMigration({ to: 3 }),
  'mysql, partitioned': mysqlMigration({ to: 3, layout: 'partitioned' }),
  sqlite: sqliteMigration({ to: 3 }),
} as const

describe.each(Object.entries(ALL))('the statements of %s', (_, statements) => {
  it('are one each, and note their version', () => {
    expect(statements.length).toBeGreaterThan(12)
    for (const statement of statements) expect(splitStatements(statement)).toEqual([statement])
    expect(
      statements.filter((text) => text.startsWith('INSERT INTO') && /migrations\W/.test(text)),
    ).not.toEqual([])
  })

  it('have nothing that a library takes for a place of a value', () => {
    expect(statements.filter((text) => text.includes('?'))).toEqual([])
  })

  it('have nothing left to fill in', () => {
    expect(statements.filter((text) => /\{\w+\}/.test(text))).toEqual([])
  })
})

describe('a range of versions', () => {
  it('is one migration, or several after each other', () => {
    const first = postgresMigration({ to: 1 })
    const second = postgresMigration({ from: 1, to: 2 })
    const create = (text: string): boolean => text.includes('CREATE TABLE')
    expect(first.some(create)).toBe(true)
    expect(second.some(create)).toBe(false)
    expect(second.some((text) => text.includes('CREATE SCHEMA'))).toBe(false)
    const both = postgresMigration({ to: 2 })
    // Each list keeps and gives back the time that the transaction waits for locks.
    expect([...first.slice(0, -1), ...second.slice(1)]).toEqual(both)
  })

  it.each([
    [{ to: 7 }, 'to must be a whole number from 1 to 6'],
    [{ to: 0 }, 'to must be a whole number from 1 to 6'],
    [{}, 'to must be a whole number from 1 to 6'],
    [{ from: 2, to: 2 }, 'from must be a whole number from 0 to 1'],
    [{ to: 2, shema: 'x' }, 'did you mean "schema"?'],
    [{ to: 2, view: 'no' }, 'view must be true or false'],
    [{ to: 2, schema: 'x; y' }, 'schema must be'],
    [{ to: 2, schema: 'pg_toast' }, 'schema must not be'],
  ])('%j is refused', (options, message) => {
    expect(() => postgresMigration(options as { to: number })).toThrow(message)
  })

  it('and names are checked on every database', () => {
    expect(() => mysqlMigration({ to: 5 })).toThrow('to must be')
    expect(() => sqliteMigration({ to: 5 })).toThrow('to must be')
    expect(() => mysqlMigration({ to: 1, prefix: '1' })).toThrow('prefix must be')
    expect(() => sqliteMigration({ to: 1, prefix: '1' })).toThrow('prefix must be')
    expect(() => postgresRemoval({ prefix: '1' })).toThrow('prefix must be')
    expect(() => mysqlRemoval({ prefix: '1' })).toThrow('prefix must be')
    expect(() => sqliteRemoval({ prefix: '1' })).toThrow('prefix must be')
  })

  it.each([
    [
      'postgres in a schema of that name',
      postgresMigration({ to: 4, schema: 'VIEW' }),
      postgresMigration({ to: 4, schema: 'VIEW', view: false }),
    ],
    ['postgres', postgresMigration({ to: 4 }), postgresMigration({ to: 4, view: false })],
    ['mysql', mysqlMigration({ to: 3 }), mysqlMigration({ to: 3, view: false })],
    ['sqlite', sqliteMigration({ to: 3 }), sqliteMigration({ to: 3, view: false })],
  ])('of %s can do without the view', (_, all, without) => {
    const left = all.filter((text) => !without.includes(text))
    expect(left).toEqual([expect.stringMatching(/^(--.*\n)*CREATE.*VIEW/)])
    expect(all.filter((text) => / VIEW /.test(text))).toEqual(left)
  })

  it('has the names that are asked for', () => {
    const named = postgresMigration({ to: 2, schema: 'shop', prefix: 'box_' }).join('\n')
    expect(named).toContain('CREATE TABLE "shop"."box_events"')
    expect(named).not.toContain('"outbox"')
    expect(postgresRemoval({ schema: 'shop', prefix: 'box_' }).join('\n')).toContain('"shop"."box_events"')
    expect(mysqlMigration({ to: 1, prefix: 'box_' }).join('\n')).toContain('`box_events`')
    expect(sqliteMigration({ to: 1, prefix: 'box_' }).join('\n')).toContain('"box_events"')
  })
})
