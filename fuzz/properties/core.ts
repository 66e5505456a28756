/** What is checked without a database: options, headers, names, ids and patterns. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { checkHeaders, checkName, type NameKind } from '../../src/core/model/headers.ts'
import { checkJsonText, serialisePayload } from '../../src/core/model/payload.ts'
import { isUuid, uuidFromBytes, uuidToBytes } from '../../src/core/model/uuid.ts'
import { compilePattern, matches } from '../../src/core/policy/routing.ts'
import { createOutbox, defineEvent, exponential, fixed } from '../../src/index.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { outcomeOf, type Property, pure } from '../property.ts'
import { hostileText, hostileValue, jsonValue, plainText } from '../values.ts'

const LIMITS = { maxBytes: 1_048_576, maxDepth: 64 }

const payloads = pure('payloads', fc.oneof(jsonValue, hostileValue), (value) =>
  outcomeOf(
    () => serialisePayload(value, LIMITS),
    ({ text, bytes }) => {
      assert.equal(text, JSON.stringify(value))
      assert.equal(bytes, Buffer.byteLength(text))
      assert.equal(Buffer.from(text).toString(), text, 'survives UTF-8')
    },
  ),
)

const jsonTexts = pure(
  'JSON texts',
  fc.oneof(
    fc.json(),
    hostileText,
    hostileValue,
    fc.json().chain((text) => fc.nat(text.length).map((cut) => text.slice(0, cut))),
  ),
  (text) =>
    outcomeOf(
      () => checkJsonText(text as string, LIMITS),
      (checked) => {
        assert.equal(checked.text, text)
        JSON.parse(checked.text)
      },
    ),
)

const headerMaps = fc.oneof(
  fc.dictionary(fc.stringMatching(/^[a-z-]{1,12}$/), plainText),
  fc.dictionary(fc.oneof(hostileText, plainText), fc.oneof(hostileText, plainText)),
  fc.dictionary(plainText, hostileValue),
  hostileValue,
)

const headers = pure('headers', headerMaps, (given) =>
  outcomeOf(
    () => checkHeaders(given),
    (checked) => {
      assert.deepEqual({ ...checked }, { ...(given as object) })
      assert.equal(Object.getPrototypeOf(checked), null)
      assert.ok(Object.isFrozen(checked))
    },
  ),
)

const NAME_KINDS: readonly NameKind[] = [
  'type',
  'key',
  'destination',
  'aggregateId',
  'tenantId',
  'idempotencyKey',
]

const names = pure(
  'names and keys',
  fc.tuple(fc.constantFrom(...NAME_KINDS), fc.oneof(plainText, hostileText, hostileValue)),
  ([kind, value]) =>
    outcomeOf(
      () => checkName(kind, value),
      (name) => {
        assert.equal(name, value)
        assert.equal(Buffer.from(name).toString(), name)
        assert.ok(!name.includes('\u0000'))
      },
    ),
)

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

const damagedUuid = fc
  .tuple(fc.uuid(), fc.nat(35), hostileText)
  .map(([id, at, text]) => id.slice(0, at) + text + id.slice(at + 1))

const ids = pure(
  'ids',
  fc.oneof(
    fc.uuid(),
    fc.uuid().map((id) => id.toUpperCase()),
    damagedUuid,
    hostileValue,
  ),
  (value) => {
    const good = isUuid(value)
    assert.equal(good, typeof value === 'string' && UUID.test(value) && value.length === 36)
    if (!good) return 'refused'
    assert.equal(uuidFromBytes(uuidToBytes(value)), value.toLowerCase())
    return 'accepted'
  },
)

const patterns = pure(
  'patterns',
  fc.tuple(
    fc.oneof(
      plainText,
      hostileText,
      hostileValue,
      plainText.map((text) => `${text}.*`),
    ),
    plainText,
  ),
  ([pattern, type]) =>
    outcomeOf(
      () => compilePattern(pattern as string),
      (compiled) => {
        const text = pattern as string
        const prefix = text.endsWith('.*') ? text.slice(0, -1) : null
        const expected =
          text === '*' ||
          text === type ||
          (prefix !== null && type.startsWith(prefix) && type.length > prefix.length)
        assert.equal(matches(compiled, type), expected)
      },
    ),
)

const definitions = pure(
  'definitions',
  fc.tuple(
    fc.oneof(plainText, hostileValue),
    fc.oneof(
      hostileValue,
      fc.dictionary(
        fc.constantFrom('version', 'key', 'schema', 'aggregate', 'contentType', 'upcast'),
        hostileValue,
      ),
    ),
  ),
  ([type, options]) => outcomeOf(() => defineEvent(type as string, options as never)),
)

const store = () => memoryStore()

const OPTION_NAMES = [
  'destinations',
  'logger',
  'metrics',
  'runtime',
  'migrate',
  'validate',
  'maxPayloadBytes',
  'maxPayloadDepth',
  'serve',
  'laneLeaseMs',
  'laneRenewMs',
  'keyOrder',
  'pollIntervalMs',
  'retry',
  'classify',
  'onFailure',
  'retentionDeadHours',
  'cleanupIntervalMs',
  'store',
  'transactions',
  '__proto__',
  'typo',
]

const DESTINATION_NAMES = [
  'to',
  'events',
  'topic',
  'retry',
  'concurrency',
  'batchSize',
  'ratePerSecond',
  'breaker',
  'deadHead',
  'paused',
]

const optionValue = fc.oneof(fc.integer(), hostileValue, fc.constant(undefined))

const destination = fc
  .tuple(
    fc.array(fc.oneof(plainText, hostileValue), { minLength: 1, maxLength: 2 }),
    fc.dictionary(fc.constantFrom(...DESTINATION_NAMES), optionValue, { maxKeys: 2 }),
  )
  .map(([events, rest]) => ({ events, ...rest }))

const outboxOptions = fc.oneof(
  hostileValue,
  fc
    .dictionary(fc.constantFrom(...OPTION_NAMES), optionValue, { maxKeys: 2 })
    .map((rest) => ({ store: store(), ...rest })),
  fc
    .dictionary(
      fc.oneof(fc.stringMatching(/^[a-z]{1,8}$/), hostileText),
      fc.oneof(destination, hostileValue),
      { maxKeys: 2 },
    )
    .map((destinations) => ({ store: store(), destinations })),
)

const options = pure('options of createOutbox', outboxOptions, (given) =>
  outcomeOf(
    () => createOutbox(given as never),
    async (outbox) => {
      assert.equal(outbox.isStarted, false)
      await outbox.close()
    },
  ),
)

const retries = pure(
  'retry policies',
  fc.tuple(
    fc.boolean(),
    fc.oneof(
      hostileValue,
      fc.dictionary(
        fc.constantFrom('baseMs', 'maxMs', 'maxAttempts', 'delayMs', 'jitter', 'factor'),
        optionValue,
      ),
    ),
  ),
  ([isFixed, given]) =>
    outcomeOf(
      () => (isFixed ? fixed(given as never) : exponential(given as never)),
      (policy) => {
        for (const attempt of [1, 2, 50]) {
          const ms = policy.computeDelayMs(attempt, () => 0.5)
          assert.ok(Number.isFinite(ms) && ms >= 0, `attempt ${attempt} waits ${ms} ms`)
        }
      },
    ),
)

export const coreProperties: readonly Property[] = [
  payloads,
  jsonTexts,
  headers,
  names,
  ids,
  patterns,
  definitions,
  options,
  retries,
]
