import { testClient } from './run.ts'

testClient('postgres-js')
