/** A role whose process counts which files run. */
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { relative } from 'node:path'
import { json } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { RoleProcess } from '../../test/support/role-process.ts'
import { isProduct, ROOT } from './product-files.ts'

const PRELOAD = new URL('./coverage-preload.ts', import.meta.url).href

/** Settings that make a role serve its coverage on this Unix socket. */
export function coveredAt(socket: string): Record<string, string> {
  return { NODE_OPTIONS: `--import ${PRELOAD}`, FIGURES_SOCKET: socket }
}

export class CoveredRole {
  readonly process: RoleProcess
  readonly #socket: string

  constructor(process: RoleProcess, socket: string) {
    this.process = process
    this.#socket = socket
  }

  /** The product files of which a function ran since the last call or, after the role has ended, until its end. */
  async take(): Promise<string[]> {
    const urls = this.process.running
      ? await ask(this.#socket)
      : JSON.parse(await readFile(`${this.#socket}.json`, 'utf8'))
    return (urls as string[])
      .map((url) => relative(ROOT, fileURLToPath(url)).replaceAll('\\', '/'))
      .filter(isProduct)
  }
}

async function ask(socketPath: string): Promise<unknown> {
  const asked = request({ socketPath, agent: false }).end()
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  return await json(answer)
}
