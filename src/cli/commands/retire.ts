import type { LoadedOutbox } from '../../config/load-config.ts'
import type { Command } from '../command.ts'
import { Interrupted } from '../failures.ts'
import { ACT_FLAGS, outboxesWith, withReason } from '../filters.ts'
import type { Session } from '../session.ts'
import { clean, deliveriesText } from '../text.ts'

/** What is given up in one of them may be needed in the other. */
const only = (session: Session, found: readonly LoadedOutbox[]): LoadedOutbox => {
  const [first, second] = found
  if (first !== undefined && second === undefined) return first
  return session.refuse(`name one of the outboxes with --outbox: ${found.map(({ name }) => name).join(', ')}`)
}

export const retire: Command = {
  name: 'retire',
  group: 'Repair',
  summary: 'a destination that is gone hears nothing any more, and what it left is discarded',
  operands: 'DESTINATION',
  counts: [1, 1],
  about: [
    'While a destination is registered, every process stores deliveries for it, also when no configuration has it any more. Deploy ' +
      'without it first: this is refused while a live process serves it. Then this ends it, and discards what waits for it and what is dead.',
    'Processes that have not renewed yet may store a few more: run it again. Ctrl-C is safe, too. A process that declares it again ' +
      'brings it back, for events from then on.',
  ],
  flags: [
    { name: 'dry-run', about: 'say how many it would be, and touch nothing' },
    ...withReason(ACT_FLAGS),
  ],
  examples: [
    ['posthaste retire search --dry-run', 'may it go, and what would be lost?'],
    ['posthaste retire search --reason "replaced by catalogue"', 'after the deploy without it'],
  ],
  async run(session) {
    const destination = session.operands[0] ?? ''
    const dryRun = session.isOn('dry-run')
    if (!dryRun && (session.text('reason') ?? '').trim() === '')
      session.refuse('retire needs --reason: somebody will ask')
    const { name, outbox, host } = only(session, await outboxesWith(session, destination))
    const { operator } = outbox
    const { discarded: matched } = await operator.retire(destination, { dryRun: true })
    if (host.declared().some((one) => one.name === destination))
      session.note(
        clean(
          `this configuration still declares "${destination}": a process that starts with it brings it back`,
        ),
      )
    const told = { outbox: name, destination, dryRun, matched }
    if (dryRun) {
      session.say(clean(`would retire ${destination} of ${name} and discard ${deliveriesText(matched)}`))
      return { json: { ...told, discarded: 0, left: matched } }
    }
    const { signal } = session
    const progress = session.progress('discarded')
    const { discarded, left } = await operator
      .retire(destination, {
        ...session.act(),
        signal,
        onProgress: ({ done, total }) => progress.update(done, total),
      })
      .finally(() => progress.end())
    if (signal.aborted && left > 0)
      throw new Interrupted(
        clean(`${destination} hears nothing any more, but this was stopped: `) +
          `${deliveriesText(discarded)} discarded, ${left} left; run it again to go on`,
        { ...told, discarded, left },
      )
    session.say(
      `${clean(`${destination} of ${name}`)} is ${session.paint('yellow', 'retired')}; ${deliveriesText(discarded)} discarded`,
    )
    if (left > 0)
      session.note(
        `left: ${deliveriesText(left)}, being sent at that moment or stored meanwhile; run it again for them`,
      )
    return { json: { ...told, discarded, left } }
  },
}
