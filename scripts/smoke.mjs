// Copied by scripts/nodes.ts into a folder whose node_modules has the packed package alone, and run there by
// several Nodes. Plain JavaScript, because there is no loader. Every subpath must load both ways, with the same names.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { posix } from 'node:path'

const require = createRequire(import.meta.url)
const namesOf = (module) =>
  Object.keys(module)
    .filter((name) => name !== 'default' && name !== 'module.exports')
    .sort()

const { exports } = require('posthaste/package.json')
const subpaths = Object.keys(exports).filter((subpath) => subpath !== './package.json')
/** Of no use without this package, so they are allowed to ask for it, by its name. */
const NEEDS = { './nestjs': '@nestjs/common' }
for (const subpath of subpaths) {
  const name = posix.join('posthaste', subpath)
  if (subpath in NEEDS) {
    const asked = new RegExp(`Cannot find (package|module) '${NEEDS[subpath]}'`)
    await assert.rejects(import(name), asked)
    assert.throws(() => require(name), asked)
    continue
  }
  const imported = namesOf(await import(name))
  assert.notEqual(imported.length, 0, `${name} exports nothing`)
  assert.deepEqual(namesOf(require(name)), imported, `${name} differs between ESM and CommonJS`)
}
const alone = subpaths.length - Object.keys(NEEDS).length
console.log(`Node ${process.version}: ${alone} subpaths load as ESM and as CommonJS`)
