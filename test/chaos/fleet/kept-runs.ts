/** Keeps figures of runs in a growing file: one run per line. */
import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { z } from 'zod'
import { type FleetFigures, fleetFigures } from './fleet-figures.ts'

const PATH = fileURLToPath(new URL('../results/fleet.json', import.meta.url))

/** Empty without a file. @throws Error if the file has another format */
export async function keptRuns(): Promise<FleetFigures[]> {
  let text: string
  try {
    text = await readFile(PATH, 'utf8')
  } catch {
    return []
  }
  return z.array(fleetFigures).parse(JSON.parse(text))
}

export async function keepRun(run: FleetFigures): Promise<void> {
  const runs = [...(await keptRuns()), run]
  await mkdir(dirname(PATH), { recursive: true })
  await writeFile(PATH, `[\n${runs.map((one) => JSON.stringify(one)).join(',\n')}\n]\n`)
}

/** The tested commit; with a `+` after changes. */
export async function commitHere(): Promise<string> {
  const run = promisify(execFile)
  const git = async (...args: string[]) => (await run('git', args, { cwd: dirname(PATH) })).stdout.trim()
  try {
    const changed = await git('status', '--porcelain', '--untracked-files=no', '--', ':/', ':!.')
    return `${await git('rev-parse', '--short=10', 'HEAD')}${changed === '' ? '' : '+'}`
  } catch {
    return 'unknown'
  }
}
