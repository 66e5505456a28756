/** Serves the built site to this machine. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { extname, join, normalize, sep } from 'node:path'

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}

const fileOf = (folder: string, url: string): string | null => {
  try {
    const path = decodeURIComponent(new URL(url, 'http://localhost').pathname)
    const file = normalize(join(folder, path.endsWith('/') ? `${path}index.html` : path))
    const inside = file.startsWith(`${folder}${sep}`)
    return inside && existsSync(file) && statSync(file).isFile() ? file : null
  } catch {
    return null
  }
}

/** Resolves when it listens, rejects when the port is taken. */
export const serveSite = (folder: string, port: number): Promise<Server> =>
  new Promise((resolve, reject) => {
    const server = createServer(({ url = '/' }, response) => {
      const file = fileOf(folder, url)
      if (file === null) {
        response
          .writeHead(404, { 'content-type': 'text/plain; charset=utf-8' })
          .end('There is no such page.\n')
        return
      }
      const type = TYPES[extname(file)] ?? 'application/octet-stream'
      response.writeHead(200, { 'content-type': type, 'cache-control': 'no-cache' }).end(readFileSync(file))
    })
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => resolve(server))
  })
