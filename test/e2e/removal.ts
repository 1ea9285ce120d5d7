/** The end of an installation, in each order that docs/guides/uninstall.md names; after the last nothing is left. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { NodeCluster } from '../node/cluster.ts'
import { REGION } from '../support/aws/organization-account.ts'
import type { Cloud } from './cloud.ts'
import { waitFor } from './commands.ts'
import type { HelmRelease } from './helm-release.ts'
import { KILLERS } from './killer.ts'
import { countByKind, newIn, objectsOf } from './leftovers.ts'
import { makeNamespaces, ORGANIZATION } from './namespaces.ts'
import { commandsOf, runCommands } from './page-script.ts'
import { DAVIT } from './pods.ts'
import { ROOT } from './prepare-image.ts'
import { RECEIVERS } from './receiver-pod.ts'
import type { Report } from './report.ts'

const UNINSTALL = 'docs/guides/uninstall.md'
const FINALIZER = 'davit.dev/parameter'
const REMOVAL_LIMIT_MS = 5 * 60_000

type Setting = { cluster: NodeCluster; kubeconfig: string; report: Report }

type Installed = {
  helm: HelmRelease
  cloud: Cloud
  /** What there was in the cluster. */
  before: readonly string[]
  /** For another install. */
  values: object
}

export class Removal {
  readonly #of: Setting
  readonly #installed: Installed

  constructor(of: Setting, installed: Installed) {
    this.#of = of
    this.#installed = installed
  }

  /** The chart goes first: what the page says stays, and nothing else. */
  async uninstall(): Promise<void> {
    const { cluster, report } = this.#of
    await report.phase('helm uninstall, until the last pod has ended', async () => {
      await this.#installed.helm.uninstall()
      await cluster.kubectl(['wait', 'pod', '--all', '-n', DAVIT, '--for=delete', '--timeout=55s'])
    })
    const kept = (await this.#left()).filter((each) => !FROM_THE_TEST.test(each))
    report.figure('left by helm uninstall', countByKind(kept))
    const wrong = kept.filter((each) => !KEPT.test(each))
    report.check('helm uninstall leaves what the page says', wrong.length === 0, wrong.join(', '))
  }

  /** The organization goes first: Davit takes what it has in its account away, and lets its namespace go. */
  async organizationFirst(): Promise<void> {
    const { cluster, report } = this.#of
    await report.phase('a second install, which takes over what was left', () => this.#install())
    await waitFor('the finalizer of the credential', async () => {
      const finalizers = ['get', 'registrycredentials', '-n', ORGANIZATION, '-o', 'jsonpath={..finalizers}']
      return (await cluster.kubectl(finalizers)).includes(FINALIZER) ? true : undefined
    })
    const stored = this.#parameters()
    report.check('the organization has a secret in its account', stored > 0, `${stored}`)
    await report.phase('the namespace of the organization, while Davit runs', () =>
      cluster.kubectl(['delete', 'namespace', ORGANIZATION, '--timeout=58s']),
    )
    const left = this.#parameters()
    report.check('nothing of it is left in its account', left === 0, `${left}`)
  }

  async everything(): Promise<void> {
    const { report } = this.#of
    await report.phase(`${UNINSTALL}: Delete everything`, () => this.#asWritten('Delete everything'))
  }

  /** Davit's own namespace goes first, and what waits for a Davit is let go as the page says. */
  async davitFirst(): Promise<void> {
    const { cluster, report } = this.#of
    await makeNamespaces(cluster)
    await report.phase('a third install, and an organization that is connected', async () => {
      await this.#install()
      await this.#installed.cloud.connect()
    })
    await report.phase("Davit's own namespace first, and then the organization's", async () => {
      await cluster.kubectl(['delete', 'namespace', DAVIT, '--timeout=58s'])
      await cluster.remove('namespace', ORGANIZATION)
      await this.#asWritten('Deletion order')
      const lines = (await this.#commands('Delete everything')).join('\n').split('\n')
      await this.#run(
        lines.filter((line) => line.includes('get crds')),
        'the kinds can be deleted then',
      )
    })
    await cluster.kubectl(['delete', 'namespace', KILLERS, RECEIVERS, '--ignore-not-found', '--timeout=55s'])
    await cluster.kubectl(['wait', `namespace/${ORGANIZATION}`, '--for=delete', '--timeout=55s'])
    const last = await this.#left()
    report.figure('left at the end', countByKind(last))
    report.check('nothing is left at the end', last.length === 0, last.join(', '))
  }

  async #left(): Promise<string[]> {
    return newIn(await objectsOf(this.#of.cluster), this.#installed.before)
  }

  async #install(): Promise<void> {
    const { helm, values } = this.#installed
    await helm.apply('install', values)
    await helm.rolledOut()
  }

  #parameters(): number {
    return this.#installed.cloud.account.parameters(REGION).list().length
  }

  async #asWritten(heading: string): Promise<void> {
    const what = `the commands of ${UNINSTALL}, ${heading}, run to their end`
    await this.#run(await this.#commands(heading), what)
  }

  async #commands(heading: string): Promise<string[]> {
    return commandsOf(await readFile(join(ROOT, UNINSTALL), 'utf8'), heading)
  }

  async #run(commands: readonly string[], what: string): Promise<void> {
    const { kubeconfig, report } = this.#of
    const env = { ...process.env, KUBECONFIG: kubeconfig }
    const say = (line: string) => report.say(line)
    const { code } = await runCommands(commands, { cwd: ROOT, env, limitMs: REMOVAL_LIMIT_MS, say })
    report.check(what, code === 0, `exit code ${code}`)
  }
}

/** Namespaces of this run, with all that is in them. */
const FROM_THE_TEST = new RegExp(` (${ORGANIZATION}|${RECEIVERS}|${KILLERS})(/|$)`)
/** The kinds, their objects, and Davit's objects in its namespace, without those of every namespace. */
const KEPT = new RegExp(
  [
    '^CustomResourceDefinition\\.apiextensions\\.k8s\\.io \\w+\\.davit\\.dev$',
    '^\\w+\\.davit\\.dev ',
    '^APIService\\.apiregistration\\.k8s\\.io v1alpha1\\.davit\\.dev$',
    `^Namespace ${DAVIT}$`,
    `^Secret ${DAVIT}/(?!sh\\.helm\\.)`,
    `^ServiceAccount ${DAVIT}/default$`,
    `^ConfigMap ${DAVIT}/kube-root-ca\\.crt$`,
  ].join('|'),
)
