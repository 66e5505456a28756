import { testClient } from './run.ts'

testClient('typeorm')
