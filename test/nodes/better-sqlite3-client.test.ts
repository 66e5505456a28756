import { testClient } from '../clients/run.ts'

testClient('better-sqlite3')
