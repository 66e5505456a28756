import { compatibilityCases } from './cases.ts'
import { mysqlGround, postgresGround } from './grounds.ts'

compatibilityCases('PostgreSQL', postgresGround)
compatibilityCases('MariaDB', () => mysqlGround('mariadb'))
compatibilityCases('MySQL', () => mysqlGround('mysql'))
