import { isIn } from '../parts.ts'
import { compatibilityCases } from './cases.ts'
import { mysqlGround, postgresGround } from './grounds.ts'

if (isIn('most')) compatibilityCases('PostgreSQL', postgresGround)
if (isIn('rest')) {
  compatibilityCases('MariaDB', () => mysqlGround('mariadb'))
  compatibilityCases('MySQL', () => mysqlGround('mysql'))
}
