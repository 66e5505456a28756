/** Every command, in the order in which the help shows them. */
import type { Command } from '../command.ts'
import { config } from './config.ts'
import { migrate } from './migrate.ts'
import { consumeOne, worker } from './worker.ts'

export const COMMANDS: readonly Command[] = [migrate, config, worker, consumeOne]
