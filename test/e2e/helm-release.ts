/** The chart as a release of the cluster, by the helm of this machine. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import type { NodeCluster } from '../node/cluster.ts'
import { command } from './commands.ts'
import { DAVIT, ROLES } from './pods.ts'
import { ROOT } from './prepare-image.ts'

const LIMIT_MS = 6 * 60_000
const ROLLOUT_SECONDS = 55
const ROLLOUT_TRIES = 6

export class HelmRelease {
  readonly #cluster: NodeCluster
  readonly #kubeconfig: string
  readonly #folder: string

  constructor(cluster: NodeCluster, { kubeconfig, folder }: { kubeconfig: string; folder: string }) {
    this.#cluster = cluster
    this.#kubeconfig = kubeconfig
    this.#folder = folder
  }

  async apply(verb: 'install' | 'upgrade', values: object, set: readonly string[] = []): Promise<void> {
    const file = join(this.#folder, 'values.yaml')
    await writeFile(file, stringify(values))
    await this.#helm(
      verb,
      'davit',
      'charts/davit',
      '--values',
      file,
      ...set.flatMap((each) => ['--set', each]),
    )
  }

  test(): Promise<string> {
    return this.#helm('test', 'davit')
  }

  async uninstall(): Promise<void> {
    await this.#helm('uninstall', 'davit')
  }

  /** Both Deployments, to the last pod. */
  async rolledOut(): Promise<void> {
    const all = ROLES.map((role) => `deployment/davit-${role}`)
    for (let tries = ROLLOUT_TRIES; ; tries -= 1)
      try {
        for (const each of all)
          await this.#cluster.kubectl([
            ...['rollout', 'status', each, '-n', DAVIT],
            `--timeout=${ROLLOUT_SECONDS}s`,
          ])
        return
      } catch (error) {
        if (tries <= 1) throw error
      }
  }

  #helm(...args: string[]): Promise<string> {
    const env = { ...process.env, KUBECONFIG: this.#kubeconfig }
    return command('helm', [...args, '--namespace', DAVIT], { env, cwd: ROOT, limitMs: LIMIT_MS })
  }
}
