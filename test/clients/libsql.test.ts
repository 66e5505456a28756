import { testClient } from './run.ts'

testClient('libsql')
