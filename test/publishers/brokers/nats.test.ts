import { testPublisher } from '../run.ts'

testPublisher('nats')
