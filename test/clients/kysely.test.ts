import { testClient } from './run.ts'

testClient('kysely')
