import { testClient } from './run.ts'

testClient('prisma')
