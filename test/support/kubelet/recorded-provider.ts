/** A folder with one credential provider that records its input and output. */
import { chmod, mkdir, mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

export type Dialogue = { request: string; response: string }

export class RecordedProvider {
  readonly folder: string

  private constructor(folder: string) {
    this.folder = folder
  }

  /** @param command shell command that it runs */
  static async make(parent: string, name: string, command: string): Promise<RecordedProvider> {
    const folder = await mkdtemp(join(parent, 'providers-'))
    await mkdir(join(folder, 'record'))
    const script = `#!/bin/sh
record=${folder}/record/$$
cat > "$record.request"
${command} < "$record.request" > "$record.response"
code=$?
cat "$record.response"
exit $code
`
    await writeFile(join(folder, name), script)
    await chmod(join(folder, name), 0o755)
    return new RecordedProvider(folder)
  }

  /** In no particular order. */
  async dialogues(): Promise<Dialogue[]> {
    const folder = join(this.folder, 'record')
    const names = (await readdir(folder)).filter((name) => name.endsWith('.request'))
    return await Promise.all(
      names.map(async (name) => ({
        request: await readFile(join(folder, name), 'utf8'),
        response: await readFile(join(folder, name.replace('.request', '.response')), 'utf8'),
      })),
    )
  }
}
