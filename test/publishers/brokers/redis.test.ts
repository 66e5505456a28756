import { testPublisher } from '../run.ts'

testPublisher('redis')
