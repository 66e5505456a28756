/** All subjects, by name. */
import { graphile } from './graphile.ts'
import { handmade } from './handmade.ts'
import { pgboss } from './pgboss.ts'
import { posthaste } from './posthaste.ts'
import { isMysql, posthasteMysql } from './posthaste-mysql.ts'
import type { Subject, SubjectName } from './subject.ts'

export const SUBJECTS: Readonly<Record<SubjectName, Subject>> = { posthaste, graphile, pgboss, handmade }

export const subjectOn = (url: string, name: SubjectName): Subject =>
  isMysql(url) ? posthasteMysql : SUBJECTS[name]
