/** Runs the commands of docs/guides/backup.md like a user who pastes them. */

import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import type { ControlPlane } from '../../playground/control-plane/control-plane.ts'

const run = promisify(execFile)

const PAGE = new URL('../../docs/guides/backup.md', import.meta.url)

export class BackupPage {
  readonly text: string
  readonly #folder: string

  private constructor(text: string, folder: string) {
    this.text = text
    this.#folder = folder
  }

  /** @param folder of the files of the backup */
  static async read(folder: string): Promise<BackupPage> {
    return new BackupPage(await readFile(PAGE, 'utf8'), folder)
  }

  /** Runs the block that starts with this line. */
  async pasteBlock(controlPlane: ControlPlane, first: string): Promise<void> {
    await this.paste(controlPlane, this.#block(first))
  }

  /** @param like the block whose variables the lines use */
  async paste({ binaries, kubeconfigPath }: ControlPlane, lines: string, like?: string): Promise<void> {
    const variables = like === undefined ? '' : (/^\w+='.*'$/m.exec(this.#block(like))?.[0] ?? '')
    const env = {
      ...process.env,
      PATH: `${dirname(binaries.kubectl)}:${process.env.PATH}`,
      KUBECONFIG: kubeconfigPath,
      HOME: this.#folder,
    }
    const script = `${variables}\n${lines}`
    await run('bash', ['-euo', 'pipefail', '-c', script], { env, cwd: this.#folder, maxBuffer: 2 ** 26 })
  }

  #block(first: string): string {
    const blocks = [...this.text.matchAll(/```sh\n(.*?)```/gs)].map(([, block = '']) => block)
    const block = blocks.find((each) => each.startsWith(first))
    if (block === undefined) throw new Error(`the page has no block that begins with ${first}`)
    return block
  }
}
