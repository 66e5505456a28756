/**
 * `node --import` of this lets a process run our sources. tsx does so too, and more; but tests start hundreds of
 * processes, and one that starts by this has its sources loaded in half the time.
 */
import { register } from 'node:module'

process.setSourceMapsEnabled(true)
register('./typescript-hooks.mjs', import.meta.url)
