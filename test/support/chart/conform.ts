/** Validates manifests with kubeconform against the schemas of a folder. */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { stringify } from 'yaml'
import { SCHEMA_FILE } from './api-schemas.ts'
import { findChartTools } from './chart-tools.ts'
import type { Manifest } from './helm.ts'

const run = promisify(execFile)

/** @returns the errors, and a summary in numbers */
export async function conform(manifests: readonly Manifest[], schemas: string): Promise<string> {
  const file = join(schemas, `${randomBytes(4).toString('hex')}.yaml`)
  await writeFile(file, manifests.map((manifest) => stringify(manifest)).join('---\n'))
  const program = join(await findChartTools(), 'kubeconform')
  const args = ['-strict', '-summary', '-schema-location', join(schemas, SCHEMA_FILE), file]
  try {
    return await run(program, args).then(
      ({ stdout }) => stdout,
      (error: { stdout: string }) => error.stdout,
    )
  } finally {
    await rm(file)
  }
}
