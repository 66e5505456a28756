/** Apache Kafka 4: one node that is broker and controller, with topics that somebody has to create. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from './command.ts'
import { dataOf, giveToAccount, initialise } from './data.ts'
import { installMaven, javaCommand } from './install/maven.ts'
import { speaksKafka } from './probe.ts'
import { type Command, LOGIN, type Service, type Site } from './service.ts'

const VERSION = '4.1.1'
const NAME = `kafka-${VERSION}`
/** A cluster has an id, made by whoever formats its disks; there is only ever one node in ours. */
const CLUSTER = 'posthaste-services-000'

const CONSUMER = 'org.apache.kafka.tools.consumer.ConsoleConsumer'
const CONSUMER_FLAGS = [
  ...['-Xmx128m', '-XX:+UseSerialGC', '-Dlog4j2.level=off'],
  // Whatever the language of the machine; the second is for Java 18 and later.
  ...['-Dfile.encoding=UTF-8', '-Dstdout.encoding=UTF-8'],
]

const FLAGS = ['-Xmx384m', '-XX:+UseSerialGC', '-Djava.awt.headless=true']

const LOGIN_MODULE = [
  'org.apache.kafka.common.security.plain.PlainLoginModule required',
  `username="${LOGIN}" password="${LOGIN}" user_${LOGIN}="${LOGIN}";`,
].join(' ')

const settingsFor = (site: Site, data: string): Readonly<Record<string, string | number>> => ({
  'process.roles': 'broker,controller',
  'node.id': 1,
  'controller.quorum.voters': `1@127.0.0.1:${site.port + 1}`,
  listeners: `CLIENT://127.0.0.1:${site.port},CONTROLLER://127.0.0.1:${site.port + 1}`,
  'advertised.listeners': `CLIENT://127.0.0.1:${site.port}`,
  'inter.broker.listener.name': 'CLIENT',
  'controller.listener.names': 'CONTROLLER',
  'listener.security.protocol.map': 'CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT',
  'sasl.enabled.mechanisms': 'PLAIN',
  'sasl.mechanism.inter.broker.protocol': 'PLAIN',
  'listener.name.client.plain.sasl.jaas.config': LOGIN_MODULE,
  'log.dirs': data,
  'auto.create.topics.enable': 'false',
  'num.partitions': 3,
  'message.max.bytes': 1_048_588,
  // What it answered is on disk.
  ...(site.durable ? { 'log.flush.interval.messages': 1 } : {}),
  // After a kill it takes itself for somebody else until its old session has run out.
  'broker.session.timeout.ms': 3_000,
  'broker.heartbeat.interval.ms': 500,
  'offsets.topic.replication.factor': 1,
  'offsets.topic.num.partitions': 1,
  'transaction.state.log.replication.factor': 1,
  'transaction.state.log.min.isr': 1,
  'transaction.state.log.num.partitions': 1,
  'group.initial.rebalance.delay.ms': 0,
  'num.network.threads': 2,
  'num.io.threads': 2,
})

const writeLines = (
  site: Site,
  name: string,
  settings: Readonly<Record<string, string | number>>,
): string => {
  const path = join(site.home, name)
  const lines = Object.entries(settings).map(([key, value]) => `${key}=${value}\n`)
  writeFileSync(path, lines.join(''))
  giveToAccount(site, path)
  return path
}

const writeLogSettings = (site: Site): string =>
  writeLines(site, 'log4j2.properties', {
    'rootLogger.level': 'warn',
    'rootLogger.appenderRef.console.ref': 'console',
    'appender.console.type': 'Console',
    'appender.console.name': 'console',
    'appender.console.layout.type': 'PatternLayout',
    'appender.console.layout.pattern': '%d %p %c{1} %m%n',
  })

const format = async (site: Site, flags: readonly string[], folder: string): Promise<void> => {
  const settings = writeLines(site, 'format.properties', settingsFor(site, folder))
  const args = ['format', '--cluster-id', CLUSTER, '--config', settings]
  await run(javaCommand(site, NAME, flags, 'kafka.tools.StorageTool', args), {
    account: site.account,
    cwd: site.home,
  })
}

/** Kafka's own consumer at the command line: prints a line for each record from the beginning, and ends after `count`. */
export const consoleConsumer = (
  site: Pick<Site, 'folder'>,
  port: number,
  topic: string,
  count: number,
): Command => {
  const client = {
    'security.protocol': 'SASL_PLAINTEXT',
    'sasl.mechanism': 'PLAIN',
    'sasl.jaas.config': LOGIN_MODULE,
  }
  const shown = ['key', 'headers', 'partition', 'timestamp'].map((what) => `print.${what}=true`)
  return javaCommand(site, NAME, CONSUMER_FLAGS, CONSUMER, [
    ...['--bootstrap-server', `127.0.0.1:${port}`, '--topic', topic],
    ...['--from-beginning', '--max-messages', String(count), '--timeout-ms', '60000'],
    ...shown.flatMap((property) => ['--property', property]),
    ...Object.entries(client).flatMap(([name, value]) => ['--consumer-property', `${name}=${value}`]),
  ])
}

export const kafka: Service = {
  name: 'kafka',
  variable: 'POSTHASTE_TEST_KAFKA_URL',
  preferredPort: 29_092,
  ports: 2,
  needs: [],
  source: 'maven',
  stopSignal: 'SIGTERM',
  install: async (site) =>
    await installMaven(site, NAME, [
      `org.apache.kafka:kafka_2.13:${VERSION}`,
      // Its own consumer at the command line.
      `org.apache.kafka:kafka-tools:${VERSION}`,
      'org.apache.logging.log4j:log4j-core:2.25.1',
      'org.apache.logging.log4j:log4j-slf4j-impl:2.25.1',
    ]),
  async start(site) {
    const flags = [...FLAGS, `-Dlog4j2.configurationFile=file:${writeLogSettings(site)}`]
    await initialise(site, async (folder) => await format(site, flags, folder))
    const settings = writeLines(site, 'server.properties', settingsFor(site, dataOf(site)))
    return javaCommand(site, NAME, flags, 'kafka.Kafka', [settings])
  },
  ready: speaksKafka,
  url: (port) => `kafka://${LOGIN}:${LOGIN}@127.0.0.1:${port}`,
}
