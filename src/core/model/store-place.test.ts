import { describe, expect, it } from 'vitest'
import { serverAddress, serverName } from './store-place.ts'

describe('the name of a server in messages', () => {
  it.each([
    [
      { connectionString: 'postgres://shop:secret@db.example:5433/shop?sslmode=require' },
      'X at db.example:5433/shop',
    ],
    [{ connectionString: 'postgres://db.example/shop' }, 'X at db.example/shop'],
    [{ host: 'db.example', port: 5433, database: 'shop', password: 'secret' }, 'X at db.example:5433/shop'],
    [{ host: '/var/run/postgresql', database: 'shop' }, 'X at /var/run/postgresql/shop'],
    [{ socketPath: '/run/mysqld.sock', database: 'shop' }, 'X at /run/mysqld.sock/shop'],
    [
      { host: 'localhost', port: 3306, socketPath: '/run/mysqld.sock', database: 'shop' },
      'X at /run/mysqld.sock/shop',
    ],
    [{ connectionString: 'postgres://shop:secret@db.example/shop', host: 'another' }, 'X at db.example/shop'],
  ])('says where %j is', (settings, name) => {
    expect(serverName('X', settings)).toBe(name)
  })

  it.each([
    [{}],
    [{ password: 'secret' }],
    // Part of the password would be taken for the host, or for the path.
    [{ connectionString: 'postgres://shop:12/secret@db.example/shop' }],
    [{ connectionString: 'postgres://shop:12?secret@db.example/shop' }],
    [{ connectionString: 'postgres://shop:12#secret@db.example/shop' }],
    [{ connectionString: 'postgres://shop:secret@/shop?host=/var/run/postgresql' }],
    [{ connectionString: 'postgres://shop:secret@localhost/shop?host=/cloudsql/shop' }],
    [{ connectionString: 'postgres://shop:secret@localhost/shop?port=5433' }],
    [{ connectionString: 'mysql://shop:secret@localhost/shop?socketPath=/run/mysqld.sock' }],
    [{ connectionString: 'postgres:///shop' }],
    [{ connectionString: 'postgres://shop:12/se\ncret@db.example/shop' }],
    // A scheme that was forgotten.
    [{ connectionString: 'shop:secret@db.example/shop' }],
    [{ connectionString: 'secret' }],
    // As a driver takes it from mysql://shop:12/secret@db.example/shop.
    [{ host: 'shop', port: 12, database: 'secret@db.example/shop' }],
    // Its driver may find the host in the environment.
    [{ database: 'shop' }],
    [{ host: '', port: 5432, database: 'shop' }],
    [{ host: null, database: 'shop' }],
  ])('says nothing more where that is not clear: %j', (settings) => {
    expect(serverName('X', settings)).toBe('X')
    expect(serverAddress('x', settings)).not.toContain('secret@')
  })
})
