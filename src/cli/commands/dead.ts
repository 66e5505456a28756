import { readFileSync } from 'node:fs'
import { type DeadGroup, groupIdOf, groupViews } from '../../core/dead-groups.ts'
import type { DeliveryView } from '../../core/spi/index.ts'
import { BULK_FLAGS, byIds, type Choice, chooseByIds, requireSome, requireState, runBulk } from '../bulk.ts'
import type { Command, Flag } from '../command.ts'
import {
  ACT_FLAGS,
  collect,
  FILTER_FLAGS,
  filterOf,
  findEvent,
  requireDestination,
  withReason,
} from '../filters.ts'
import type { Session } from '../session.ts'
import { agoText, plainDelivery, showNamed, timeText } from '../show.ts'
import { clean, count } from '../text.ts'

/** More dead ones than this are looked at in several runs. */
const LOOK_AT = 10_000

export const deadList: Command = {
  name: 'dead list',
  aliases: ['dead'],
  group: 'Repair',
  summary: 'dead deliveries, grouped by what went wrong',
  operands: '',
  counts: [0, 0],
  about: [
    'Errors of one kind share a fingerprint: numbers, ids and quoted values are taken out of the message first. Redrive or discard ' +
      'a whole group by it once its cause is mended.',
  ],
  flags: [...FILTER_FLAGS, { name: 'each', about: 'one line per delivery instead of groups' }],
  examples: [
    ['posthaste dead list', 'what died, and how much of it'],
    ['posthaste dead redrive --group 4f1c22ab90d3e817', 'all of one kind again'],
  ],
  async run(session) {
    const groups: (DeadGroup & { readonly outbox: string })[] = []
    const all: (DeliveryView & { readonly outbox: string })[] = []
    let more = false
    for (const loaded of await session.outboxes()) {
      const { name } = loaded
      const query = { ...filterOf(session), status: ['dead' as const] }
      const seen = await collect(loaded, query, LOOK_AT)
      groups.push(...groupViews(seen.found).map((group) => ({ outbox: name, ...group })))
      if (session.isOn('each')) all.push(...seen.found.map((view) => ({ outbox: name, ...view })))
      more ||= seen.more
    }
    const sorted = groups.sort((a, b) => b.count - a.count)
    const dead = sorted.reduce((sum, group) => sum + group.count, 0)
    if (dead === 0) await requireDestination(session)
    if (dead === 0) session.say(session.paint('green', 'nothing is dead'))
    else if (session.isOn('each'))
      session.table(all, [
        { title: 'delivery', text: ({ id }) => id, colour: () => 'cyan', whole: true },
        { title: 'type', text: ({ type }) => type, name: true },
        { title: 'destination', text: ({ destination }) => destination, name: true },
        { title: 'group', text: groupIdOf, colour: () => 'yellow', whole: true },
        { title: 'key', text: ({ key }) => key ?? '', name: true },
        { title: 'last error', text: ({ lastError }) => lastError ?? '', flexible: true },
      ])
    else {
      session.table(sorted, [
        { title: 'group', text: (group) => group.fingerprint, colour: () => 'yellow', whole: true },
        { title: 'count', text: (group) => String(group.count), align: 'right', colour: () => 'red' },
        { title: 'destination', text: ({ destination }) => destination, name: true },
        { title: 'type', text: ({ type }) => type, name: true },
        { title: 'last died', text: ({ lastDiedAtMs }) => agoText(lastDiedAtMs) },
        { title: 'error', text: ({ reason }) => reason, flexible: true },
      ])
      if (!session.isJson)
        session.note(session.paint('dim', 'one by one, with their ids: posthaste dead list --each'))
    }
    if (more) session.note(`only the newest ${LOOK_AT.toLocaleString('en-US')} were looked at`)
    return {
      json: {
        dead,
        more,
        groups: sorted.map(
          ({ firstDiedAtMs, lastDiedAtMs, deliveryIds, reason, lastError: _, ...group }) => ({
            ...group,
            error: reason,
            /** One of them, to look at. */
            sample: deliveryIds[0],
            firstDiedAt: timeText(firstDiedAtMs),
            lastDiedAt: timeText(lastDiedAtMs),
          }),
        ),
        ...(session.isOn('each') ? { deliveries: all.map(plainDelivery) } : {}),
      },
    }
  },
}

export const deadShow: Command = {
  name: 'dead show',
  group: 'Repair',
  summary: 'one dead delivery with its history of attempts',
  operands: 'ID',
  counts: [1, 1],
  about: ['ID is that of the delivery or of its event. The stack of the last failure is shown too.'],
  flags: [{ name: 'payload', about: 'show payload and headers too' }],
  examples: [['posthaste dead show 019a3c1e-7b1f-7c33-9d52-0a4f6c1b2d3e', 'why it died']],
  async run(session) {
    const { detail, json } = await showNamed(session)
    const stack = detail.attempts.at(-1)?.stack ?? null
    if (stack !== null) {
      session.say()
      for (const line of stack.split('\n')) session.say(session.paint('dim', clean(line)))
    }
    return { json }
  },
}

const CHOICE_FLAGS: readonly Flag[] = [
  { name: 'group', value: 'FINGERPRINT', about: 'all of one kind, as dead list shows them' },
  ...FILTER_FLAGS,
  { name: 'all', about: 'all that are dead' },
  ...BULK_FLAGS,
]

/** By ids, or by a filter; never everything by accident. */
const choose = async (session: Session): Promise<Choice> => {
  const filter = filterOf(session)
  const group = session.text('group')
  const isFiltered = group !== undefined || Object.keys(filter).length > 0 || session.isOn('all')
  if (session.operands.length > 0) {
    if (isFiltered) session.refuse('name ids, or a filter; not both')
    return await chooseByIds(session, 'dead')
  }
  if (!isFiltered)
    session.refuse('name what is meant: ids, --group, --destination, --type, --key, --tenant or --all')
  const loaded = await session.outbox()
  const { found, more } = await collect(
    loaded,
    { ...filter, status: ['dead'], order: 'oldest' },
    LOOK_AT,
    (delivery) => group === undefined || groupIdOf(delivery) === group,
  )
  const ids = found.map(({ id }) => id)
  if (ids.length === 0) await requireDestination(session)
  requireSome(ids, group === undefined ? 'dead delivery that matches' : `dead delivery of the group ${group}`)
  if (more)
    session.note(`only the oldest ${LOOK_AT.toLocaleString('en-US')} are meant; run it again for the rest`)
  return byIds(loaded, ids)
}

export const deadRedrive: Command = {
  name: 'dead redrive',
  group: 'Repair',
  summary: 'sends dead deliveries again: one, a group, a key or all',
  operands: '[ID…]',
  counts: [0, 1_000],
  about: [
    'Each begins a new run without attempts, in its old place in the order of its key; what waits behind a dead head goes on after it. ' +
      'Mend the cause first, or they die again.',
    'Works in steps of at most 200, each a transaction: Ctrl-C stops between two of them, and what was not touched stays dead.',
  ],
  flags: CHOICE_FLAGS,
  examples: [
    ['posthaste dead redrive --group 4f1c22ab90d3e817 --dry-run', 'how many would it be?'],
    ['posthaste dead redrive --all --per-second 50 --reason "mail server is back"', 'gently'],
    ['posthaste dead redrive --key customer-7', 'one key, in its order'],
  ],
  run: (session) => runBulk(session, 'redrive', () => choose(session)),
}

export const deadDiscard: Command = {
  name: 'dead discard',
  group: 'Repair',
  summary: 'gives dead deliveries up, with a reason',
  operands: '[ID…]',
  counts: [0, 1_000],
  about: ['What waits behind them in their key goes on. The reason stays in the audit trail.'],
  flags: withReason(CHOICE_FLAGS),
  examples: [['posthaste dead discard --group 4f1c22ab90d3e817 --reason "test data"', 'a whole group']],
  async run(session) {
    if ((session.text('reason') ?? '').trim() === '')
      session.refuse('discard needs --reason: somebody will ask')
    return await runBulk(session, 'discard', () => choose(session))
  },
}

const readPayload = (session: Session): unknown => {
  const [text, file] = [session.text('payload'), session.text('payload-file')]
  if ((text === undefined) === (file === undefined)) session.refuse('name either --payload or --payload-file')
  let source: string
  try {
    source = text ?? readFileSync(file === '-' ? 0 : (file ?? ''), 'utf8')
  } catch (error) {
    return session.refuse(`${file} cannot be read: ${(error as Error).message}`)
  }
  try {
    return JSON.parse(source)
  } catch {
    // The text itself is not repeated: it may hold personal data.
    return session.refuse('the payload is not JSON')
  }
}

export const deadEdit: Command = {
  name: 'dead edit',
  group: 'Repair',
  summary: 'sends a dead delivery again with a corrected payload',
  operands: 'ID',
  counts: [1, 1],
  about: [
    'Makes a corrected copy of the event for this destination alone, in the place of the original, which can no longer be sent. ' +
      'ID is that of the delivery, or of its event when only one of its deliveries is dead.',
  ],
  flags: [
    { name: 'payload', value: 'JSON', about: 'the new payload' },
    { name: 'payload-file', value: 'FILE', about: 'the same from a file; - for standard input' },
    ...ACT_FLAGS,
  ],
  examples: [
    [`posthaste dead edit ID --payload '{"email":"ada@example.org"}' --reason typo`, 'from the command line'],
    ['posthaste dead edit ID --payload-file mended.json', 'from a file'],
  ],
  async run(session) {
    const payload = readPayload(session)
    const named = session.operands[0] ?? ''
    const [{ name, outbox }, detail, delivery] = await findEvent(session, named)
    const dead = requireState(named, delivery === null ? detail.deliveries : [delivery], 'dead')
    const [id, ...others] = dead
    if (others.length > 0) {
      const each = detail.deliveries.filter((one) => dead.includes(one.id))
      session.refuse(
        `${count(dead.length, 'delivery', 'deliveries')} of this event are dead; name one: ${each.map((one) => `${one.id} (${clean(one.destination)})`).join(', ')}`,
      )
    }
    const eventId = await outbox.operator.edit(id, { payload }, session.act())
    session.say(`${session.paint('green', 'corrected:')} event ${eventId} takes its place`)
    return { json: { outbox: name, deliveryId: id, eventId } }
  },
}
