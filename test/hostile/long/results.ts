/** The folder of figures for test/reports/guarantees.md. */
import { mkdir, rm, writeFile } from 'node:fs/promises'
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

export async function forget(name: string): Promise<void> {
  await rm(new URL(`${name}.json`, RESULTS), { force: true })
}
