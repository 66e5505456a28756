import { testClient } from '../clients/run.ts'

testClient('node-sqlite')
