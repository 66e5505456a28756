import { testClient } from './run.ts'

testClient('pg')
