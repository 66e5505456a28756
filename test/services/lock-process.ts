/** Takes the lock `turns` times and tells what it does: what two of these write must never be mixed. */
import { appendFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import { withLock } from '../../scripts/services/lock.ts'

const [lock = '', journal = '', turns = '1'] = process.argv.slice(2)

for (let i = 0; i < Number(turns); i++)
  await withLock(lock, async () => {
    appendFileSync(journal, `in ${process.pid}\n`)
    for (let wait = 0; wait < 20; wait++) await turn()
    appendFileSync(journal, `out ${process.pid}\n`)
  })
