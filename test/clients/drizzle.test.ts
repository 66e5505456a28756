import { testClient } from './run.ts'

testClient('drizzle')
