import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Clock } from '../lib/ports-clock.ts'
import { type ClusterAccess, type Credentials, splitServer } from './cluster-access.ts'
import { RefreshingCredentials } from './renewed-credentials.ts'

export type InClusterOptions = {
  /** `https://host:port`; the default is the name that every cluster's certificate and DNS carry. */
  server?: string
  /** Where the kubelet mounts `token` and `ca.crt`. */
  folder?: string
  clock: Clock
}

const SERVER = 'https://kubernetes.default.svc'
const FOLDER = '/var/run/secrets/kubernetes.io/serviceaccount'
/** The kubelet writes a new token after 80 % of the old one's life, which is ten minutes at least. */
export const TOKEN_FILE_EVERY_MS = 60_000

/** Access of a pod by its service account. @throws Error when the files are not there */
export async function inClusterAccess(options: InClusterOptions): Promise<ClusterAccess> {
  const folder = options.folder ?? FOLDER
  const load = () => readAccount(folder)
  const credentials = new RefreshingCredentials({
    first: await load().catch(notInCluster),
    load,
    everyMs: TOKEN_FILE_EVERY_MS,
    clock: options.clock,
  })
  return { ...splitServer(options.server ?? SERVER), credentials }
}

function notInCluster(error: Error): never {
  const message = `KUBECONFIG is not set, and this is no pod with a service account: ${error.message}`
  throw new Error(message, { cause: error })
}

async function readAccount(folder: string): Promise<Credentials> {
  const [ca, headers] = await Promise.all([
    readFile(path.join(folder, 'ca.crt')),
    bearer(path.join(folder, 'token')),
  ])
  return { headers, tls: { ca } }
}

/** The header for the token in a file. @throws Error when there is none */
export async function bearer(file: string): Promise<string[]> {
  const token = (await readFile(file, 'utf8')).trim()
  if (token === '') throw new Error(`the token file ${file} is empty`)
  return ['authorization', `Bearer ${token}`]
}
