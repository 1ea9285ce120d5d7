/** Where figures are kept for docs/guarantees.md. */
import { mkdir, writeFile } from 'node:fs/promises'
import { commitOfTree } from '../../support/commit.ts'

const RESULTS = new URL('../results/', import.meta.url)

export async function keep(
  name: string,
  result: { command: string; seed?: number } & Record<string, unknown>,
): Promise<void> {
  await mkdir(RESULTS, { recursive: true })
  const stamped = { measuredAt: new Date().toISOString(), commit: commitOfTree(), ...result }
  await writeFile(new URL(`${name}.json`, RESULTS), `${JSON.stringify(stamped, undefined, 2)}\n`)
}
