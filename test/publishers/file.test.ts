import { testPublisher } from './run.ts'

testPublisher('file')
