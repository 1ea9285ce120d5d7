/** Runs schemathesis against a REST server. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { OTHER_ORGANIZATION } from '../../playground/organization.ts'
import type { FuzzBed } from './bed.ts'
import type { FuzzReport, FuzzRun, StatusCount } from './verdict.ts'

export type FuzzOptions = {
  bed: FuzzBed
  /** Programs of the virtual environment. */
  bin: string
  /** For its files; what it writes stays there. */
  folder: string
  seed: number
  /** Of each operation, in each of the ways in which cases are made up. */
  examples: number
}

const HERE = fileURLToPath(new URL('.', import.meta.url))
/** It ends by itself long before. */
const LIMIT_MS = 9 * 60_000
/** Share of requests for the organization of the token, in tenths; the others are for another organization. */
const OWN = 9

/** @throws Error when it did not get as far as a report */
export async function runSchemathesis({ bed, bin, folder, seed, examples }: FuzzOptions): Promise<FuzzRun> {
  const config = join(folder, 'schemathesis.toml')
  const report = join(folder, 'report.json')
  const statuses = join(folder, 'statuses.json')
  await copyFile(join(HERE, 'schemathesis.toml'), config)
  const words = {
    organizations: [...Array<string>(OWN).fill(bed.organization), OTHER_ORGANIZATION],
    endpoints: bed.endpoints,
    credentials: bed.credentials,
    deliveries: bed.deliveries,
    boxTemplates: bed.boxTemplates,
  }
  for (const [name, of] of Object.entries(words))
    await writeFile(join(folder, `${name}.dict`), of.map((word) => `"${word}"\n`).join(''))
  const identity = (name: string, value: string) => ({
    name,
    fixedHeaders: [{ name: 'Authorization', value }],
  })
  const auth = [identity('owner', bed.key), identity('other', bed.otherKey)]
  await writeFile(join(folder, 'identities.json'), JSON.stringify({ auth }), { mode: 0o600 })
  const child = spawn(
    join(bin, 'python'),
    [
      ...['-m', 'schemathesis.cli', '--config-file', config, 'run', `${bed.baseUrl}/openapi.json`],
      ...['--checks', 'all', '--max-examples', String(examples), '--no-color'],
      ...['--report-json-path', report, '--seed', String(seed)],
    ],
    {
      // Its own state of earlier runs is not to matter.
      cwd: folder,
      stdio: ['ignore', 'inherit', 'inherit'],
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        FUZZ_HOOKS: join(HERE, 'hooks.py'),
        FUZZ_RECEIVER: bed.receiver,
        FUZZ_STATUSES: statuses,
        PYTHONDONTWRITEBYTECODE: '1',
      },
      timeout: LIMIT_MS,
      // It still writes what it has found.
      killSignal: 'SIGINT',
    },
  )
  const [exitCode] = (await once(child, 'exit')) as [number | null]
  const [found, counted] = await Promise.all([readJson(report), readJson(statuses)])
  if (found === undefined || counted === undefined)
    throw new Error(`schemathesis ended with ${exitCode} and left no report`)
  return { exitCode, report: found as FuzzReport, statuses: counted as StatusCount[] }
}

async function readJson(path: string): Promise<unknown> {
  const text = await readFile(path, 'utf8').catch(() => undefined)
  return text === undefined ? undefined : JSON.parse(text)
}
