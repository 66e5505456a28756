export * from './delivery.ts'
export * from './event.ts'
export * from './lane.ts'
export * from './uuid.ts'
