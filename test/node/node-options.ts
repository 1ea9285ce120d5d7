/** What there is to know about the node; nothing of it is guessed. */
import { parseArgs } from 'node:util'

export type NodeOptions = {
  /** Of an administrator of its cluster. */
  kubeconfig: string
  /** Of this machine, where pods, the kubelet and the runtime reach it. */
  address: string
  /** The folder `config_path` of its containerd, with what is known of registries. */
  registryHosts: string
  /** Holds the id of the kubelet, a process of this machine. */
  kubeletPidFile: string
  /** Of Davit, as the node pulls it. */
  image: string | undefined
  parts: readonly Part[]
}

/** `pulls`: pods pull with the kubelet's provider. `bakes`: boxes are baked in pods. */
export type Part = 'pulls' | 'bakes'

export const USAGE = `usage: npm run test:node -- PART... --kubeconfig FILE --address IP
         --registry-hosts FOLDER  config_path of the node's containerd
         --kubelet-pid-file FILE  of the node's kubelet, for pulls: it is started again with a provider, and then as it was
         --image NAME             of Davit, for bakes

PART is pulls or bakes. The node is one on this machine; CONTRIBUTING.md says more.`

export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** @throws UsageError */
export function parseNodeOptions(args: readonly string[]): NodeOptions {
  const { values, positionals } = parsed(args)
  const parts = [...new Set(positionals)].map((name) => {
    if (name === 'pulls' || name === 'bakes') return name
    throw new UsageError(`there is no part ${name}`)
  })
  if (parts.length === 0) throw new UsageError('name at least one part')
  const given = (name: keyof typeof values) => {
    const value = values[name]
    if (value) return value
    throw new UsageError(`--${name} is missing`)
  }
  if (parts.includes('bakes')) given('image')
  return {
    kubeconfig: given('kubeconfig'),
    address: given('address'),
    registryHosts: parts.includes('pulls') ? given('registry-hosts') : '',
    kubeletPidFile: parts.includes('pulls') ? given('kubelet-pid-file') : '',
    image: values.image,
    parts,
  }
}

function parsed(args: readonly string[]) {
  const text = { type: 'string' } as const
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        kubeconfig: text,
        address: text,
        'registry-hosts': text,
        'kubelet-pid-file': text,
        image: text,
      },
    })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}
