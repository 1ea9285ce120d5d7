/** A new cluster of kind, which goes with the run. */
import { join } from 'node:path'
import { command } from './commands.ts'

const NAME = 'davit-e2e'
const LIMIT_MS = 10 * 60_000

export type KindCluster = {
  kubeconfig: string
  /** Of this machine, in the network of its nodes. */
  address: string
  stop(): Promise<void>
}

/** @param image that its nodes have from the start */
export async function startKind(folder: string, image: string): Promise<KindCluster> {
  const kubeconfig = join(folder, 'kind.kubeconfig')
  const kind = (...args: string[]) => command('kind', args, { limitMs: LIMIT_MS })
  await kind('create', 'cluster', '--name', NAME, '--kubeconfig', kubeconfig, '--wait', '5m')
  const stop = async () => {
    await kind('delete', 'cluster', '--name', NAME, '--kubeconfig', kubeconfig)
  }
  try {
    await kind('load', 'docker-image', '--name', NAME, image)
    const format = '{{range .IPAM.Config}}{{.Gateway}} {{end}}'
    const gateways = await command('docker', ['network', 'inspect', 'kind', '--format', format])
    const address = gateways.split(/\s+/).find((each) => each.includes('.'))
    if (address === undefined) throw new Error(`the network of kind has no gateway: ${gateways}`)
    return { kubeconfig, address, stop }
  } catch (error) {
    await stop()
    throw error
  }
}
