import { testPublisher } from './run.ts'

testPublisher('webhook')
