/** The judge of text, rules and rules' tests: promtool, of the machine or Debian's package, unpacked beside the servers of the tests. */
import { spawnSync } from 'node:child_process'
import { findFolder } from '../../scripts/services/folder.ts'
import { debianCommand, installDebian } from '../../scripts/services/install/debian.ts'
import type { Command } from '../../scripts/services/service.ts'

export interface Judged {
  readonly ok: boolean
  readonly said: string
}

export type Promtool = (args: readonly string[], input?: string) => Judged

const judged = ({ program, args }: Command, input?: string): Judged => {
  const { status, stdout, stderr, error } = spawnSync(program, args, { input, encoding: 'utf8' })
  return {
    ok: status === 0,
    said: `${stdout ?? ''}${stderr ?? ''}${error === undefined ? '' : String(error)}`,
  }
}

export const findPromtool = async (): Promise<Promtool> => {
  if (judged({ program: 'promtool', args: ['--version'] }).ok)
    return (args, input) => judged({ program: 'promtool', args }, input)
  const report = (text: string): void => console.log(text)
  const site = { folder: findFolder(report), report }
  await installDebian(site, 'bookworm', 'prometheus')
  return (args, input) => judged(debianCommand(site, 'prometheus', 'usr/bin/promtool', args), input)
}
