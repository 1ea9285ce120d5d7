/** A role that runs from the file system of the image, as its user and with its environment, and can write nowhere. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, copyFile, mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../playground/free-port.ts'
import {
  CONTROLLER_ACCOUNT,
  type Installation,
  OPERATOR_NAMESPACE,
  SERVER_ACCOUNT,
} from '../support/installation.ts'
import { until } from '../support/until.ts'
import type { Image } from './image.ts'

export type RunningRole = {
  readyMs: number
  stop(): Promise<{ rssBytes: number; code: number | null }>
}

const READY_LIMIT_MS = 60_000
const SHELLS = ['sh', 'bash', 'dash', 'rbash']
/** In a mount namespace of its own, so that nothing is left behind. The shell is this machine's. */
const ENTER = `
mount --bind "$ROOT" "$ROOT" && mount -o remount,ro,bind "$ROOT" &&
mount -t proc proc "$ROOT/proc" && mount --rbind /dev "$ROOT/dev" &&
exec env -i $ENVIRONMENT chroot --userspec=65532:65532 "$ROOT" "$@"`

export async function startRole(
  role: 'controller' | 'api',
  { image, davit }: { image: Image; davit: Installation },
): Promise<RunningRole> {
  const { root } = image
  await Promise.all(SHELLS.map((name) => rm(join(root, 'usr/bin', name), { force: true })))
  const kubeconfig = `/run/davit/${role}.kubeconfig`
  await mkdir(join(root, 'run/davit'), { recursive: true })
  const account = role === 'api' ? SERVER_ACCOUNT : CONTROLLER_ACCOUNT
  await copyFile(await davit.makeKubeconfig(account), join(root, kubeconfig))
  await chmod(join(root, kubeconfig), 0o444)
  const opsPort = await freePort()
  const environment = [
    ...image.config.config.Env,
    `KUBECONFIG=${kubeconfig}`,
    `DAVIT_NAMESPACE=${OPERATOR_NAMESPACE}`,
    `DAVIT_OPS_ADDRESS=127.0.0.1:${opsPort}`,
    `DAVIT_API_ADDRESS=127.0.0.1:${await freePort()}`,
    'DAVIT_SHUTDOWN_DELAY=0s',
    'DAVIT_SHUTDOWN_TIMEOUT=2s',
  ]
  const begin = performance.now()
  const child = spawn(
    'unshare',
    [
      '--mount',
      '--propagation',
      'private',
      'sh',
      '-c',
      ENTER,
      'enter',
      ...image.config.config.Entrypoint,
      role,
    ],
    {
      env: { PATH: process.env.PATH, ROOT: root, ENVIRONMENT: environment.join(' ') },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  const output: string[] = []
  child.stdout.on('data', (bytes: Buffer) => output.push(bytes.toString()))
  child.stderr.on('data', (bytes: Buffer) => output.push(bytes.toString()))
  await until(
    async () => {
      if (child.exitCode !== null) throw new Error(`${role} has ended:\n${output.join('')}`)
      const answer = await fetch(`http://127.0.0.1:${opsPort}/readyz`).catch(() => undefined)
      return answer?.ok || undefined
    },
    () => `${role} does not become ready:\n${output.join('')}`,
    READY_LIMIT_MS,
  )
  const readyMs = performance.now() - begin
  return { readyMs, stop: () => stop(child) }
}

async function stop(child: ChildProcess): Promise<{ rssBytes: number; code: number | null }> {
  const status = await readFile(`/proc/${child.pid}/status`, 'utf8')
  const [, kilobytes = '0'] = /^VmRSS:\s+(\d+) kB$/m.exec(status) ?? []
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  const [code] = (await exited) as [number | null]
  return { rssBytes: Number(kilobytes) * 1024, code }
}
