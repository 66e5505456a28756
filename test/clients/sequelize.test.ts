import { testClient } from './run.ts'

testClient('sequelize')
