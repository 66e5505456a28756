/** Types are taken off once; what is left is kept with a mark of what was there, so that nothing old is ever run. */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const KEPT = join(import.meta.dirname, '..', '.cache', 'typescript')

const OPTIONS = {
  loader: 'ts',
  format: 'esm',
  target: 'node20.19',
  sourcemap: 'inline',
  tsconfigRaw: { compilerOptions: { experimentalDecorators: true, verbatimModuleSyntax: true } },
}

/** The compiler that tsx uses. */
const requireOfTsx = createRequire(createRequire(import.meta.url).resolve('tsx/package.json'))
const { version } = requireOfTsx('esbuild/package.json')
const FORM = `${version} ${JSON.stringify(OPTIONS)}`

const readKept = (path) => {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error.code === 'ENOENT') return null
    throw error
  }
}

const hashOf = (text) => createHash('sha256').update(text).digest('hex')

export const load = async (url, context, next) => {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return await next(url, context)
  const path = fileURLToPath(url)
  const source = readFileSync(path, 'utf8')
  const kept = join(KEPT, `${hashOf(path)}.js`)
  const mark = `/*${hashOf(`${FORM}\n${source}`)}*/`
  let text = readKept(kept)
  if (!text?.startsWith(mark)) {
    const { code } = await requireOfTsx('esbuild').transform(source, { ...OPTIONS, sourcefile: path })
    text = `${mark}${code}`
    mkdirSync(KEPT, { recursive: true })
    // In one step: others may be reading it.
    const draft = `${kept}.${process.pid}`
    writeFileSync(draft, text)
    renameSync(draft, kept)
  }
  return { format: 'module', source: text, shortCircuit: true }
}
