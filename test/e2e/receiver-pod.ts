/** A receiver of webhooks as a pod, from the image of Davit, which has a Node. */
import { readFile } from 'node:fs/promises'
import type { NodeCluster } from '../node/cluster.ts'
import { waitFor } from './commands.ts'
import { PortForward } from './port-forward.ts'
import { RESTRICTED, restrictedPod } from './restricted.ts'

export const RECEIVERS = 'davit-e2e-receivers'
const NAME = 'receiver'
const PORT = 8080
const LABELS = { app: NAME }

export type Seen = { first: string[]; requests: number; unsigned: number }

export class ReceiverPod {
  /** Where Davit reaches it, without a path. */
  readonly url = `http://${NAME}.${RECEIVERS}.svc.cluster.local:${PORT}`
  /** Of its Service. */
  readonly address: string
  readonly #forward: PortForward

  private constructor(address: string, forward: PortForward) {
    this.address = address
    this.#forward = forward
  }

  static async start(
    { cluster, kubeconfig }: { cluster: NodeCluster; kubeconfig: string },
    image: string,
  ): Promise<ReceiverPod> {
    const program = await readFile(new URL('receiver-program.mjs', import.meta.url), 'utf8')
    await cluster.apply(...objects(image, program))
    await cluster.kubectl(['wait', `pod/${NAME}`, '-n', RECEIVERS, '--for=condition=Ready', '--timeout=55s'])
    const { spec } = await cluster.get<{ spec: { clusterIP: string } }>('service', NAME, '-n', RECEIVERS)
    const target = { namespace: RECEIVERS, target: `pod/${NAME}`, port: PORT }
    return new ReceiverPod(spec.clusterIP, await PortForward.start(kubeconfig, target))
  }

  async expect(path: string, secret: string): Promise<void> {
    await this.#ask('/secrets', { method: 'POST', body: JSON.stringify({ path, secret }) })
  }

  async seen(path: string): Promise<Seen> {
    return (await (await this.#ask(`/seen?path=${path}`)).json()) as Seen
  }

  #ask(path: string, init: RequestInit = {}): Promise<Response> {
    return waitFor('the receiver', async () => {
      try {
        const answer = await fetch(`${this.#forward.url}${path}`, {
          ...init,
          signal: AbortSignal.timeout(20_000),
        })
        return answer.ok ? answer : undefined
      } catch (error) {
        await this.#forward.renew()
        throw error
      }
    })
  }

  stop(): Promise<void> {
    return this.#forward.stop()
  }
}

function objects(image: string, program: string): object[] {
  const metadata = { namespace: RECEIVERS, name: NAME, labels: LABELS }
  return [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: RECEIVERS, labels: RESTRICTED } },
    { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'receiver.mjs': program } },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata,
      spec: { selector: LABELS, ports: [{ port: PORT }] },
    },
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata,
      spec: restrictedPod({
        image,
        command: ['node', '/program/receiver.mjs'],
        volumes: [{ name: 'program', configMap: { name: NAME } }],
        volumeMounts: [{ name: 'program', mountPath: '/program' }],
        readinessProbe: { httpGet: { path: '/seen?path=/', port: PORT }, periodSeconds: 1 },
      }),
    },
  ]
}
