/** A process of its own, so that the programs can be run meanwhile: the compiler lets nothing else run in its own. */
import { checkTypes } from './compile.ts'

const problems = checkTypes(process.argv.slice(2))
for (const problem of problems) console.error(problem)
process.exitCode = problems.length === 0 ? 0 : 1
