/** The checker as a process of its own: the verdict on a folder, as one line of JSON. */
import { checkRun } from './check.ts'

const [folder] = process.argv.slice(2)
if (folder === undefined) throw new Error('which folder?')
process.stdout.write(`${JSON.stringify(await checkRun(folder))}\n`)
