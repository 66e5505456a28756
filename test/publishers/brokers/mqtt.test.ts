import { testPublisher } from '../run.ts'

testPublisher('mqtt')
