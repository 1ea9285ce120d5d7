/** The cluster of the node, by kubectl. */
import { runKubectl } from '../support/control-plane-kubectl.ts'
import { until } from '../support/until.ts'

const POD_LIMIT_MS = 120_000
const READY_LIMIT_MS = 120_000

export type PodSeen = {
  /** Succeeded, Failed, or why its container waits. */
  came: string
  /** What the kubelet says about it. */
  message: string
  /** Digest of its image, once it was pulled. */
  image: string
}

export class NodeCluster {
  readonly #kubeconfig: string

  constructor(kubeconfig: string) {
    this.#kubeconfig = kubeconfig
  }

  kubectl(args: readonly string[], stdin = ''): Promise<string> {
    return runKubectl('kubectl', ['--kubeconfig', this.#kubeconfig, ...args], stdin)
  }

  async apply(...objects: object[]): Promise<void> {
    await this.kubectl(
      ['apply', '-f', '-'],
      JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }),
    )
  }

  async get<T>(...args: string[]): Promise<T> {
    return JSON.parse(await this.kubectl(['get', '-o', 'json', ...args])) as T
  }

  /** Whether its kubelet has reported it since then. */
  async untilReady(since: number): Promise<void> {
    await until(
      async () => {
        const { items } = await this.get<{ items: Node[] }>('nodes').catch(() => ({ items: [] }))
        const isReady = items.some(({ status }) =>
          status.conditions.some(
            ({ type, status: is, lastHeartbeatTime }) =>
              type === 'Ready' && is === 'True' && Date.parse(lastHeartbeatTime) > since,
          ),
        )
        return isReady ? true : undefined
      },
      () => 'the node does not become ready',
      READY_LIMIT_MS,
    )
  }

  /** What becomes of a pod: its end, or that its image cannot be pulled. */
  async comesOf(namespace: string, name: string): Promise<PodSeen> {
    let last = ''
    return await until(
      async () => {
        const { status } = await this.get<Pod>('pod', name, '-n', namespace)
        last = JSON.stringify(status)
        return seenOf(status)
      },
      () => `${namespace}/${name} stays ${last}`,
      POD_LIMIT_MS,
    )
  }

  /** Waits until it is gone. */
  async removed(...what: string[]): Promise<void> {
    await this.kubectl(['delete', ...what, '--ignore-not-found', '--timeout=50s'])
  }

  /** What there is of it; it goes on going in the background. */
  async remove(...what: string[]): Promise<void> {
    await this.kubectl(['delete', ...what, '--ignore-not-found', '--wait=false'])
  }
}

type Node = { status: { conditions: { type: string; status: string; lastHeartbeatTime: string }[] } }

type PodStatus = {
  phase?: string
  containerStatuses?: {
    imageID?: string
    state?: { waiting?: { reason?: string; message?: string } }
  }[]
}
type Pod = { status: PodStatus }

const REFUSALS: ReadonlySet<string> = new Set([
  'ErrImagePull',
  'ImagePullBackOff',
  'ErrImageNeverPull',
  'InvalidImageName',
])

function seenOf({ phase, containerStatuses = [] }: PodStatus): PodSeen | undefined {
  const [{ imageID = '', state } = {}] = containerStatuses
  const { reason = '', message = '' } = state?.waiting ?? {}
  const image = /sha256:[0-9a-f]{64}/.exec(imageID)?.[0] ?? ''
  if (phase === 'Succeeded' || phase === 'Failed') return { came: phase, message, image }
  return REFUSALS.has(reason) ? { came: reason, message, image } : undefined
}
