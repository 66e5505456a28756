import { testClient } from './run.ts'

testClient('mysql2')
