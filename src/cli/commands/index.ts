/** Every command, in the order in which the help shows them. */
import type { Command } from '../command.ts'
import { bench } from './bench.ts'
import { catalog } from './catalog.ts'
import { config } from './config.ts'
import { deadDiscard, deadEdit, deadList, deadRedrive, deadShow } from './dead.ts'
import { demo } from './demo.ts'
import { backfill, pause, resume, tune } from './destinations.ts'
import { doctor } from './doctor.ts'
import { eventsList, eventsShow, eventsTail } from './events.ts'
import { guarantees } from './guarantees.ts'
import { importRows } from './import.ts'
import { init } from './init.ts'
import { migrate } from './migrate.ts'
import { prove } from './prove.ts'
import { replay } from './replay.ts'
import { retire } from './retire.ts'
import { status } from './status.ts'
import { cleanup, partitions } from './tables.ts'
import { why } from './why.ts'
import { consumeOne, worker } from './worker.ts'

export const COMMANDS: readonly Command[] = [
  init,
  migrate,
  importRows,
  config,
  worker,
  consumeOne,
  cleanup,
  partitions,
  status,
  eventsList,
  eventsShow,
  eventsTail,
  why,
  doctor,
  deadList,
  deadShow,
  deadRedrive,
  deadEdit,
  deadDiscard,
  replay,
  backfill,
  pause,
  resume,
  tune,
  retire,
  guarantees,
  catalog,
  prove,
  bench,
  demo,
]
