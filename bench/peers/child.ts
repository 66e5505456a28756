/** One process of a measurement: gets an order, does it, answers, and ends when it is told to. */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type {
  FillOrder,
  HandleOrder,
  LatencyFigures,
  LatencyOrder,
  Message,
  Order,
  PublishOrder,
} from './orders.ts'
import type { Opened, OpenOptions, SubjectName } from './subject.ts'
import { isMysql, subjectOn } from './subjects.ts'
import { insertOrder, inTransaction } from './transaction.ts'

const REPORT_MS = 20
/** How long the last events may take after the last publish. */
const LATEST_MS = 15_000
const LATENCY_CONNECTIONS = 16

const tell = (message: Message): Promise<void> =>
  new Promise((resolve) => {
    process.send?.(message, () => resolve())
  })

const open = async (subject: SubjectName, options: OpenOptions): Promise<Opened> =>
  (await subjectOn(options.url, subject)).open(options)

const rssPeak = (): number => process.resourceUsage().maxRSS * 1_024

const handle = async ({ url, subject }: HandleOrder): Promise<void> => {
  let count = 0
  const opened = await open(subject, {
    url,
    role: 'handle',
    keyed: false,
    connections: 2,
    readsPayload: false,
    handled: () => {
      count += 1
    },
  })
  const before = process.cpuUsage()
  const usedMs = (): number => {
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1_000
  }
  const timer = setInterval(() => {
    void tell({ kind: 'handled', count, rssPeak: rssPeak(), usedMs: usedMs() })
  }, REPORT_MS)
  await tell({ kind: 'ready' })
  await new Promise<void>((resolve) => process.once('message', () => resolve()))
  clearInterval(timer)
  await opened.close()
}

const publisherOnly = {
  role: 'publish',
  keyed: false,
  readsPayload: false,
  handled: () => undefined,
} as const

const fill = async ({ url, subject, events }: FillOrder): Promise<void> => {
  const opened = await open(subject, { url, ...publisherOnly, connections: 2 })
  await opened.fill(events)
  await tell({ kind: 'filled' })
  await opened.close()
}

const figuresOf = (values: readonly number[]): LatencyFigures => {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (share: number): number => {
    const value = sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0
    return Number(value.toFixed(3))
  }
  return { p50: at(0.5), p99: at(0.99), count: sorted.length }
}

/** Starts one whenever it is time, whether or not the last one has ended: a slow answer must not slow the clock. */
const publishSteadily = async (
  opened: Opened,
  { perSecond, total }: { readonly perSecond: number; readonly total: number },
  committed: (n: number) => void,
): Promise<void> => {
  const startedAt = performance.now()
  const running: Promise<void>[] = []
  while (running.length < total) {
    const due = Math.min(total, Math.ceil(((performance.now() - startedAt) * perSecond) / 1_000))
    for (let n = running.length; n < due; n += 1)
      running.push(opened.publish(n, 'event alone', () => committed(n)))
    await sleep(1)
  }
  await Promise.all(running)
}

const measureLatency = async (order: LatencyOrder): Promise<void> => {
  const { url, subject, keyed, perSecond, warmUpSeconds, seconds } = order
  const total = Math.ceil(perSecond * (warmUpSeconds + seconds))
  const [committedAt, handledAt] = [new Float64Array(total), new Float64Array(total)]
  let handled = 0
  const opened = await open(subject, {
    url,
    role: 'both',
    keyed,
    connections: LATENCY_CONNECTIONS,
    readsPayload: true,
    handled: (n) => {
      // Of an event that comes twice only the first time counts.
      if (handledAt[n] !== 0) return
      handledAt[n] = performance.now()
      handled += 1
    },
  })
  await publishSteadily(opened, { perSecond, total }, (n) => {
    committedAt[n] = performance.now()
  })
  const deadline = performance.now() + LATEST_MS
  while (handled < total && performance.now() < deadline) await sleep(5)
  if (handled < total) throw new Error(`${subject}: ${total - handled} of ${total} events were never handled`)
  const first = Math.floor(perSecond * warmUpSeconds)
  const latencies = Array.from(handledAt, (at, n) => at - (committedAt[n] ?? 0)).slice(first)
  await tell({ kind: 'latency', figures: figuresOf(latencies) })
  await opened.close()
}

type Publishing = Pick<Opened, 'publish' | 'close'>

const withoutOutbox = (url: string, connections: number): Publishing => {
  const pool = new pg.Pool({ connectionString: url, max: connections })
  return {
    publish: (n) => inTransaction(pool, (client) => insertOrder(client, n)),
    close: () => pool.end(),
  }
}

const withoutOutboxOnMysql = async (uri: string, connections: number): Promise<Publishing> => {
  const { default: mysql } = await import('mysql2/promise')
  const { insertMysqlOrder } = await import('./posthaste-mysql.ts')
  const pool = mysql.createPool({ uri, connectionLimit: connections })
  return {
    async publish(n) {
      const connection = await pool.getConnection()
      await connection.beginTransaction()
      await insertMysqlOrder(connection, n)
      await connection.commit()
      connection.release()
    },
    close: () => pool.end(),
  }
}

const measurePublish = async (order: PublishOrder): Promise<void> => {
  const { url, subject, connections, warmUpSeconds, seconds } = order
  const opened =
    subject === 'none'
      ? await (isMysql(url) ? withoutOutboxOnMysql : withoutOutbox)(url, connections)
      : await open(subject, { url, ...publisherOnly, connections })
  let [started, counted] = [0, 0]
  const from = performance.now() + warmUpSeconds * 1_000
  const until = from + seconds * 1_000
  const loop = async (): Promise<void> => {
    while (performance.now() < until) {
      const n = started++
      await opened.publish(n, 'with order', () => undefined)
      const now = performance.now()
      if (now >= from && now < until) counted += 1
    }
  }
  await Promise.all(Array.from({ length: connections }, loop))
  await tell({ kind: 'published', perSecond: counted / seconds })
  await opened.close()
}

const obey = async (order: Order): Promise<void> => {
  switch (order.kind) {
    case 'handle':
      return await handle(order)
    case 'fill':
      return await fill(order)
    case 'latency':
      return await measureLatency(order)
    case 'publish':
      return await measurePublish(order)
  }
}

process.once('disconnect', () => process.exit())
process.once('message', (order: Order) => {
  obey(order).then(
    () => process.disconnect(),
    (error: unknown) => {
      console.error(error)
      process.exit(1)
    },
  )
})
