/**
 * The order of test files. By itself vitest runs one project after the other, and larger files first: then all workers
 * wait for brokers, later for databases, and fight for the processors at the end; and a file of three lines that runs
 * a whole suite comes last, alone.
 */
import { relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** They take longest, and their size does not show it. Those of each project begin in this order. */
const LONG = [
  'test/compat/servers.test.ts',
  'test/databases/chaos.test.ts',
  'test/clients/mikro-orm.test.ts',
  'test/clients/prisma.test.ts',
  'test/clients/typeorm.test.ts',
  'test/clients/sequelize.test.ts',
  'test/stores/postgres.test.ts',
  'test/stores/postgres-pgbouncer.test.ts',
  'test/stores/postgres-partitioned.test.ts',
  'test/stores/postgres-oldest.test.ts',
  'test/clients/drizzle.test.ts',
  'test/clients/knex.test.ts',
  'test/clients/kysely.test.ts',
  'test/databases/killed-workers.test.ts',
  'test/clients/pglite.test.ts',
  'test/clients/mariadb.test.ts',
  'test/stores/mysql-partitioned.test.ts',
  'test/cli/disposable-servers.test.ts',
  'test/model/model.test.ts',
  'test/stores/pglite.test.ts',
  'test/simulator/simulator.test.ts',
  'test/cli/operate.test.ts',
  'test/journeys/processes.test.ts',
  'test/cli/meant.test.ts',
  'test/cli/worker.test.ts',
  'test/demo/demo.test.ts',
  'test/simulator/defects.test.ts',
  'test/soak/soak.test.ts',
  'test/stores/sqlite-libsql.test.ts',
  'test/compat/sqlite.test.ts',
  'test/cli/newcomer.test.ts',
]

/** Files of these projects share processes, as long as nobody else comes in between. */
const TOGETHER = ['unit', 'journeys']

/** As many files of a project as take any time; those after them fill the gaps at the end. */
const WEIGHTY = 80

export class MixedSequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const found = LONG.indexOf(relative(this.ctx.config.root, moduleId))
      return found < 0 ? LONG.length : found
    }
    const sorted = (await super.sort(files)).sort((a, b) => rank(a) - rank(b))
    const projects = new Map<string, TestSpecification[]>()
    for (const spec of sorted) {
      const { name } = spec.project
      projects.set(name, [...(projects.get(name) ?? []), spec])
    }
    // All at the same pace, so that those who wait run beside those who compute.
    const placed = [...projects].flatMap(([name, specs]) =>
      specs.map((spec, index) => ({
        spec,
        share: TOGETHER.includes(name) ? 0 : index / Math.min(specs.length, WEIGHTY),
      })),
    )
    return placed.sort((a, b) => a.share - b.share).map(({ spec }) => spec)
  }
}
