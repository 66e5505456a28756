/** `npm run docs`: the documents as a site, built into a folder and, if wanted, served to this machine. */
import type { AddressInfo } from 'node:net'
import { resolve } from 'node:path'
import { ROOT } from '../run.ts'
import { numberOption, runCommand } from '../usage.ts'
import { buildSite } from './build.ts'
import { serveSite } from './serve.ts'

const HELP = `Usage: npm run docs -- [OPTIONS]

Builds the documentation as a site into the folder site: open site/index.html, or let it be served.
Links and anchors that lead nowhere, and pages that are in no topic, are named, and nothing is built.

  --serve        serve it on 127.0.0.1 until Ctrl-C
  --port PORT    where, 0 to 65535 (default 8000); 0 lets the system choose
  --out FOLDER   build into this folder (default site)
  --json         the last line is { ok, pages, sources, links, problems, out, url, seconds }

Exit code: 0 built, 1 something leads nowhere or the port is taken, 2 the command was not understood.
`

const SPEC = {
  serve: { type: 'boolean', default: false },
  port: { type: 'string', default: '8000' },
  out: { type: 'string', default: 'site' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

const untilInterrupted = (): Promise<void> =>
  new Promise((done) => {
    process.once('SIGINT', () => done())
    process.once('SIGTERM', () => done())
  })

process.exitCode = await runCommand('docs', HELP, SPEC, async ({ serve, port, out, json }) => {
  const wanted = numberOption('port', port, 0, 65_535)
  const started = performance.now()
  const folder = resolve(ROOT, out)
  const { problems, ...counts } = buildSite(ROOT, folder)
  const seconds = Number(((performance.now() - started) / 1000).toFixed(1))
  const ok = problems.length === 0
  const report = (url: string | null): void => {
    if (json) console.log(JSON.stringify({ ok, ...counts, problems, out: folder, url, seconds }))
  }
  for (const problem of problems) console.error(problem)
  if (!ok) {
    report(null)
    return 1
  }
  const { pages, links } = counts
  console.log(`${pages} pages, ${links} links checked, ${seconds} s: ${folder}/index.html`)
  if (!serve) {
    report(null)
    return 0
  }
  try {
    const server = await serveSite(folder, wanted)
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    console.log(`Served on ${url} until Ctrl-C`)
    report(url)
    await untilInterrupted()
    server.closeAllConnections()
    server.close()
    return 0
  } catch (error) {
    console.error(
      `Port ${wanted} cannot be used: ${(error as Error).message}. Choose another one with --port.`,
    )
    return 1
  }
})
