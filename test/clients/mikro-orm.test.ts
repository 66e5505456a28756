import { testClient } from './run.ts'

testClient('mikro-orm')
