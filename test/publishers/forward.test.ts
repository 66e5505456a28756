import { testPublisher } from './run.ts'

testPublisher('forward')
