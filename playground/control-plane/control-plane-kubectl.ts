import { execFile } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

/** The oldest minor of Kubernetes 1 that Davit supports, as a client too. */
const OLDEST_MINOR = 32

const CALL_LIMIT_MS = 30_000

/** The host's kubectl, if it is new enough. */
export async function findHostKubectl(env: NodeJS.ProcessEnv): Promise<string | undefined> {
  for (const folder of (env.PATH ?? '').split(delimiter)) {
    const path = join(folder, 'kubectl')
    if (folder !== '' && (await isExecutable(path))) {
      return (await minorOf(path, env)) >= OLDEST_MINOR ? path : undefined
    }
  }
  return undefined
}

async function minorOf(kubectl: string, env: NodeJS.ProcessEnv): Promise<number> {
  try {
    const args = ['version', '--client', '-o', 'json']
    const { stdout } = await promisify(execFile)(kubectl, args, { env, timeout: CALL_LIMIT_MS })
    const answer = JSON.parse(stdout) as { clientVersion?: { minor?: string } }
    // Vendors mark theirs: "32+".
    return Number.parseInt(answer.clientVersion?.minor ?? '', 10)
  } catch {
    return Number.NaN
  }
}

async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  )
}
