import { compatibilityCases } from './cases.ts'
import { sqliteGround } from './grounds.ts'

compatibilityCases('SQLite', sqliteGround)
