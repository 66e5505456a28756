/** Tables of other outboxes: which column says what, which rows are unfinished, and how a row is told that it is done. */

export const DATABASES = ['postgres', 'mysql', 'sqlite'] as const
export type DatabaseKind = (typeof DATABASES)[number]

/** What a column can be for an event. */
export const ROLES = [
  'id',
  'type',
  'payload',
  'key',
  'headers',
  'created',
  'due',
  'attempts',
  'aggregate-type',
  'aggregate-id',
  'tenant',
  'idempotency-key',
] as const
export type Role = (typeof ROLES)[number]

/** A value in a condition or an assignment; these two words stand for what cannot be written as text. */
export const NOW = '@now'
export const NULL = '@null'

/** All columns must have one of their values. */
export type Condition = readonly (readonly [column: string, values: readonly string[]])[]

export interface Shape {
  /** What it is, for the help. */
  readonly about: string
  readonly databases: readonly DatabaseKind[]
  readonly table: string
  /** Names in the order in which they are looked for: versions of a system differ. */
  readonly columns: Readonly<Partial<Record<Role, readonly string[]>>>
  /** Header by column. */
  readonly headerColumns?: Readonly<Record<string, string>>
  readonly state: readonly string[]
  readonly pending: readonly string[]
  /** A worker has it, or died with it. */
  readonly inFlight: readonly string[]
  readonly dead: readonly string[]
  readonly order: readonly (readonly string[])[]
  readonly done: readonly (readonly [columns: readonly string[], value: string])[]
  /** Types that the system keeps for itself. */
  readonly exceptTypes?: string
}

export const SHAPES: Readonly<Record<string, Shape>> = {
  'python-queue': {
    about: 'outbox.events with topic, payload, status pending/processing/processed',
    databases: ['postgres'],
    table: 'outbox.events',
    columns: {
      id: ['id'],
      type: ['topic'],
      payload: ['payload'],
      created: ['created_at'],
      due: ['next_attempt_at'],
      attempts: ['attempt_count'],
    },
    state: ['status'],
    pending: ['pending'],
    inFlight: ['processing'],
    dead: ['failed'],
    order: [['created_at'], ['id']],
    done: [[['status'], 'processed']],
  },
  'java-framework': {
    about: 'outbox_event with event_id, event_type, aggregate_id, status 0 NEW, 1 DONE, 2 RETRY, 3 DEAD',
    databases: ['mysql', 'postgres', 'sqlite'],
    table: 'outbox_event',
    columns: {
      id: ['event_id'],
      type: ['event_type'],
      payload: ['payload'],
      key: ['aggregate_id'],
      headers: ['headers'],
      created: ['created_at'],
      due: ['available_at'],
      attempts: ['attempts'],
      'aggregate-type': ['aggregate_type'],
      'aggregate-id': ['aggregate_id'],
      tenant: ['tenant_id'],
    },
    state: ['status'],
    pending: ['0', '2'],
    inFlight: [],
    dead: ['3'],
    order: [['created_at'], ['event_id']],
    done: [
      [['status'], '1'],
      [['done_at'], NOW],
    ],
  },
  'go-library': {
    about: 'outbox with a binary id (UUIDv7), aggregate_type, event_type, status 0, 1, -1',
    databases: ['mysql'],
    table: 'outbox',
    columns: {
      id: ['id'],
      type: ['event_type'],
      payload: ['payload'],
      key: ['aggregate_id'],
      headers: ['headers'],
      created: ['created_at'],
      attempts: ['attempt_count'],
      'aggregate-type': ['aggregate_type'],
      'aggregate-id': ['aggregate_id'],
    },
    state: ['status'],
    pending: ['0'],
    inFlight: [],
    dead: ['-1'],
    order: [['id']],
    done: [
      [['status'], '1'],
      [['processed_at'], NOW],
    ],
  },
  'kafka-module': {
    about:
      'outbox with topic, key, payload_json, idempotency_key, status pending/publishing/failed/published',
    databases: ['postgres', 'mysql', 'sqlite'],
    table: 'outbox',
    columns: {
      id: ['id'],
      type: ['topic'],
      payload: ['payload_json'],
      key: ['key'],
      created: ['created_at'],
      due: ['next_attempt_at'],
      attempts: ['retry_count'],
      'idempotency-key': ['idempotency_key'],
    },
    state: ['status'],
    pending: ['pending', 'failed'],
    inFlight: ['publishing'],
    dead: ['dead_lettered'],
    order: [['created_at'], ['id']],
    done: [
      [['status'], 'published'],
      [['published_at'], NOW],
    ],
  },
  protean: {
    about:
      'outbox with stream_name, type, data, locked_by, status pending/processing/failed/published/abandoned',
    databases: ['postgres', 'mysql', 'sqlite'],
    table: 'outbox',
    columns: {
      id: ['id'],
      type: ['type'],
      payload: ['data'],
      key: ['stream_name'],
      created: ['created_at'],
      attempts: ['retry_count'],
    },
    headerColumns: {
      'message-id': 'message_id',
      'correlation-id': 'correlation_id',
      'trace-id': 'trace_id',
    },
    state: ['status'],
    // Its documents write them in capitals, its tables do not.
    pending: ['pending', 'failed', 'PENDING', 'FAILED'],
    inFlight: ['processing', 'PROCESSING'],
    dead: ['abandoned', 'ABANDONED'],
    order: [['created_at'], ['sequence_number'], ['id']],
    done: [
      [['status'], 'published'],
      [['published_at'], NOW],
    ],
  },
  'pg-boss': {
    about:
      'pgboss.job: name, data, state created/retry/active; with --key singleton_key where its queues are strictly in order',
    databases: ['postgres'],
    table: 'pgboss.job',
    columns: {
      id: ['id'],
      type: ['name'],
      payload: ['data'],
      created: ['created_on', 'createdon'],
      due: ['start_after', 'startafter'],
      attempts: ['retry_count', 'retrycount'],
    },
    state: ['state'],
    pending: ['created', 'retry'],
    inFlight: ['active'],
    dead: ['failed'],
    order: [['created_on', 'createdon'], ['id']],
    done: [
      [['state'], 'completed'],
      [['completed_on', 'completedon'], NOW],
    ],
    exceptTypes: '__pgboss__',
  },
}
