/** The program around the commands: help, mistakes, closed pipes. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT } from '../../scripts/run.ts'
import { COMMANDS } from '../../src/cli/commands/index.ts'
import { createFolder, createShop } from './cli.ts'

describe('help', () => {
  it('lists every command and the exit codes', async () => {
    const { code, stdout, stderr } = await createFolder().run(['--help'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const { name, summary } of COMMANDS)
      expect(stdout.replaceAll(/\s+/g, ' ')).toContain(`${name} ${summary}`)
    expect(stdout).toContain('130')
    expect(stdout).not.toContain('\u001b')
  })

  it('has a version beside it', async () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }
    for (const flag of ['--version', '-v'])
      expect(await createFolder().run([flag])).toMatchObject({ code: 0, stdout: `${version}\n`, stderr: '' })
    expect((await createFolder().run(['--version', '--json'])).json).toEqual({ ok: true, text: version })
    expect((await createFolder().run(['help', '--json'])).json).toMatchObject({ ok: true })
  })

  it('explains each command with examples', async () => {
    const folder = createFolder()
    const all = await Promise.all(
      COMMANDS.slice(0, 6).map(({ name }) => folder.run(['help', ...name.split(' ')])),
    )
    for (const [index, { code, stdout }] of all.entries()) {
      const command = COMMANDS[index]
      expect(code).toBe(0)
      for (const flag of command?.flags ?? []) expect(stdout).toContain(`--${flag.name}`)
      for (const [example] of command?.examples ?? []) expect(stdout).toContain(example)
    }
  })
})

it('a word that begins several commands leads to all of them', async () => {
  const { stdout } = await createFolder().run(['help', 'dead'])
  const shown = stdout.replaceAll(/\s+/g, ' ')
  expect(shown).toContain(
    'See also: posthaste dead show, posthaste dead redrive, posthaste dead edit, posthaste dead discard',
  )
})

describe('mistakes', () => {
  it.each([
    [['statsu'], 2, 'there is no command "statsu"; did you mean "status"?'],
    [['nope', '--no-color'], 2, 'there is no command "nope"\n'],
    [['redrive', 'x'], 2, 'there is no command "redrive"; did you mean "dead redrive"?'],
    [['list'], 2, 'did you mean "events list" or "dead list"?'],
    [['--no-color'], 2, 'name a command'],
    [['dead', 'redirve'], 2, 'dead does not know "redirve"; there are: dead list'],
    [['status', '--wach'], 2, 'status does not know the flag --wach; did you mean "--watch"?'],
    [['why'], 2, 'why needs ID'],
    [
      ['events', 'list', '--limit', '-3'],
      2,
      '--limit needs a value; one that begins with - is written --limit=-…',
    ],
    [['worker', '--workers', 'abc'], 2, '--workers must be a whole number from 1 to 100, not "abc"'],
    [
      ['worker', '--once', '--health-port', '8080'],
      2,
      '--once and --health-port exclude each other: one pass is over before anybody can ask\n',
    ],
    [['worker', '--limit', '1', '--health-port', '8080'], 2, '--once and --health-port exclude each other'],
    [['status', 'now'], 2, 'status does not know what to do with "now"'],
    [['status'], 3, 'there is no posthaste.config.ts'],
    [['status', '--config', 'nowhere.ts'], 3, 'there is no configuration file'],
    [['status', '--config', 'nowhere.ts'], 3, ' [POSTHASTE_INVALID_CONFIG]\n'],
  ])('%j is refused', async (args, code, message) => {
    const ended = await createFolder().run([...args])
    expect({ code: ended.code, stdout: ended.stdout }).toEqual({ code, stdout: '' })
    expect(ended.stderr).toContain(message)
  })

  it('are told as JSON too', async () => {
    const { code, json, stderr } = await createFolder().run(['status', '--json'])
    expect(code).toBe(3)
    // Programs have it in the JSON.
    expect(stderr).toBe(`posthaste: ${json.error.message}\n`)
    expect(json).toMatchObject({ ok: false, error: { code: 'POSTHASTE_INVALID_CONFIG', exitCode: 3 } })
  })
})

describe('a reader that leaves', () => {
  it('ends the program quietly with 141', async () => {
    const shop = await createShop()
    await shop.run(['migrate'])
    const { child, ended, line } = shop.start(['status', '--watch', '--interval', '100ms'])
    await line(/posthaste status/)
    child.stdout?.destroy()
    expect(await ended).toMatchObject({ code: 141, stderr: '' })
  })
})
