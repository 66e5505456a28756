import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT } from '../../scripts/run.ts'
import { SERVICES, serviceOf, splitName, withNeeds } from '../../scripts/services/catalogue.ts'
import { mirrorsIn } from '../../scripts/services/install/debian.ts'

const namesOf = (names: readonly string[]): string[] => withNeeds(names).map(({ name }) => name)

describe('services', () => {
  it('never meet on a port: preferred ones differ in their last two digits', () => {
    const digits = SERVICES.flatMap(({ preferredPort, ports = 1 }) =>
      Array.from({ length: ports }, (_, n) => (preferredPort + n) % 100),
    )
    expect(new Set(digits).size).toBe(digits.length)
  })

  it('have a variable each', () => {
    for (const { variable } of SERVICES) expect(variable).toMatch(/^POSTHASTE_TEST_[A-Z_]+_URL$/)
    expect(new Set(SERVICES.map(({ variable }) => variable)).size).toBe(SERVICES.length)
  })

  it('come after those they need, each once', () => {
    expect(namesOf(['pgbouncer', 'postgres', 'pgbouncer'])).toEqual(['postgres', 'pgbouncer'])
    expect(namesOf(['mysql', 'pgbouncer'])).toEqual(['mysql', 'postgres', 'pgbouncer'])
  })

  it('of a label need those of the same label', () => {
    expect(namesOf(['pgbouncer@crash'])).toEqual(['postgres@crash', 'pgbouncer@crash'])
    expect(serviceOf('postgres-new@crash').variable).toBe('POSTHASTE_TEST_POSTGRES_NEW_CRASH_URL')
    expect(splitName('postgres-new@crash')).toEqual({ kind: 'postgres-new', label: 'crash' })
  })

  it.each(['', 'Postgres', 'postgres@', 'postgres@../x', 'postgres@a@b', 'post gres', '../postgres'])(
    'have no name like "%s"',
    (name) => {
      expect(() => serviceOf(name)).toThrow('is no name')
    },
  )

  it('are listed when one is not known', () => {
    expect(() => serviceOf('oracle')).toThrow(
      'There is no service "oracle"; there are postgres, postgres-new, mariadb, mysql, pgbouncer, redis, nats, mosquitto, rabbitmq, kafka.',
    )
  })

  it.each(SERVICES)(
    'are all in compose.yaml, on the same port: $name',
    ({ name, variable, preferredPort }) => {
      const text = readFileSync(join(ROOT, 'compose.yaml'), 'utf8')
      const port = `127.0.0.1:\${${variable.replace(/_URL$/, '_PORT')}:-${preferredPort}}:`
      const entry = text.split(/^(?= {2}\S)/m).find((part) => part.startsWith(`  ${name}:`))
      expect(entry).toContain(port)
    },
  )

  it.each(['mosquitto.conf', 'pgbouncer.ini'])('have every mark of %s filled in by compose.yaml', (file) => {
    const settings = readFileSync(join(ROOT, 'scripts', 'services', 'files', file), 'utf8')
    const text = readFileSync(join(ROOT, 'compose.yaml'), 'utf8')
    const entry = text.split(/^(?= {2}\S)/m).find((part) => part.includes(`/settings/${file}`)) ?? ''
    const marks = settings.match(/@[A-Z]+@/g) ?? []
    expect(marks.length).toBeGreaterThan(0)
    for (const mark of marks) expect(entry).toContain(mark)
  })
})

describe('mirrors of Debian', () => {
  it('are found in both formats, without those for security', () => {
    const sources =
      'Types: deb\nURIs: http://one.example/debian\nSuites: bookworm\n\nTypes: deb\nURIs: http://two.example/debian-security\n'
    const list = [
      '# deb http://old.example/debian stable main',
      'deb [signed-by=/k.gpg arch=amd64] https://three.example/debian bookworm main',
      'deb http://four.example/debian bookworm main',
      'deb-src http://five.example/debian bookworm main',
      'deb cdrom:[disk]/ bookworm main',
      'deb http://six.example/security bookworm main',
    ].join('\n')
    expect(mirrorsIn(sources)).toEqual(['http://one.example/debian'])
    expect(mirrorsIn(list)).toEqual(['https://three.example/debian', 'http://four.example/debian'])
  })
})
