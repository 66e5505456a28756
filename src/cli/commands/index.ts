/** Every command, in the order in which the help shows them. */
import type { Command } from '../command.ts'
import { pause, replay, resume } from './acts.ts'
import { config } from './config.ts'
import { deadDiscard, deadEdit, deadList, deadRedrive, deadShow } from './dead.ts'
import { eventsList, eventsShow, eventsTail } from './events.ts'
import { migrate } from './migrate.ts'
import { status } from './status.ts'
import { consumeOne, worker } from './worker.ts'

export const COMMANDS: readonly Command[] = [
  migrate,
  config,
  worker,
  consumeOne,
  status,
  eventsList,
  eventsShow,
  eventsTail,
  deadList,
  deadShow,
  deadRedrive,
  deadEdit,
  deadDiscard,
  replay,
  pause,
  resume,
]
