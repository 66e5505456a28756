import { testClient } from './run.ts'

testClient('pglite')
