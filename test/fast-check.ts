/**
 * Property tests see the same cases in every run, so that a red run is always the fault of a change.
 * `FC_SEED=random` (or a number) looks at others, and a failure prints the seed it was found with.
 */
import fc from 'fast-check'

const wanted = process.env.FC_SEED ?? '1'
const seed = wanted === 'random' ? Date.now() | 0 : Number(wanted)
if (!Number.isInteger(seed)) throw new Error(`FC_SEED must be "random" or a whole number, not "${wanted}"`)

// A `maxLength` says how long is worth trying; without this hardly anything would be longer than ten.
fc.configureGlobal({ seed, defaultSizeToMaxWhenMaxSpecified: true })
