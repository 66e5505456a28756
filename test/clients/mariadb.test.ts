import { testClient } from './run.ts'

testClient('mariadb')
