/** All subjects, by name. Each is loaded where it is measured and not elsewhere: what others load is not its memory. */
import type { Subject, SubjectName } from './subject.ts'

const LOAD: Readonly<Record<SubjectName, () => Promise<Subject>>> = {
  posthaste: async () => (await import('./posthaste.ts')).posthaste,
  graphile: async () => (await import('./graphile.ts')).graphile,
  pgboss: async () => (await import('./pgboss.ts')).pgboss,
  handmade: async () => (await import('./handmade.ts')).handmade,
  samerows: async () => (await import('./same-rows.ts')).sameRows,
}

export const isMysql = (url: string): boolean => url.startsWith('mysql:')

export const subjectOn = async (url: string, name: SubjectName): Promise<Subject> =>
  isMysql(url) ? (await import('./posthaste-mysql.ts')).posthasteMysql : await LOAD[name]()
