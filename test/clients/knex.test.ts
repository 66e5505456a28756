import { testClient } from './run.ts'

testClient('knex')
