/** The end of an installation: what an uninstall leaves, a second install that takes it over, and everything gone. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { NodeCluster } from '../node/cluster.ts'
import type { HelmRelease } from './helm-release.ts'
import { KILLERS } from './killer.ts'
import { countByKind, newIn, objectsOf } from './leftovers.ts'
import { commandsOf, runCommands } from './page-script.ts'
import { DAVIT } from './pods.ts'
import { ROOT } from './prepare-image.ts'
import { RECEIVERS } from './receiver-pod.ts'
import type { Report } from './report.ts'

export const ORGANIZATION = 'davit-e2e'
const UNINSTALL = 'docs/uninstall.md'
const REMOVAL_LIMIT_MS = 5 * 60_000

type Setting = { cluster: NodeCluster; kubeconfig: string; report: Report }

/** @param before what there was in the cluster @param values for a second install */
export async function removeRelease(
  { cluster, kubeconfig, report }: Setting,
  helm: HelmRelease,
  before: readonly string[],
  values: object,
): Promise<void> {
  const left = async () => newIn(await objectsOf(cluster), before)
  await report.phase('helm uninstall, until the last pod has ended', async () => {
    await helm.uninstall()
    await cluster.kubectl(['wait', 'pod', '--all', '-n', DAVIT, '--for=delete', '--timeout=55s'])
  })
  const kept = (await left()).filter((each) => !FROM_THE_TEST.test(each))
  report.figure('left by helm uninstall', countByKind(kept))
  const wrong = kept.filter((each) => !KEPT.test(each))
  report.check('helm uninstall leaves what the page says', wrong.length === 0, wrong.join(', '))
  await report.phase('a second install, which takes over what was left', async () => {
    await helm.apply('install', values)
    await helm.rolledOut()
  })
  await report.phase(`${UNINSTALL}: Everything`, async () => {
    const page = commandsOf(await readFile(join(ROOT, UNINSTALL), 'utf8'), 'Everything')
    const env = { ...process.env, KUBECONFIG: kubeconfig }
    const say = (line: string) => report.say(line)
    const { code } = await runCommands(page, { cwd: ROOT, env, limitMs: REMOVAL_LIMIT_MS, say })
    report.check(`the commands of ${UNINSTALL} run to their end`, code === 0, `exit code ${code}`)
  })
  await cluster.kubectl(['delete', 'namespace', KILLERS, RECEIVERS, ORGANIZATION, '--timeout=55s'])
  const last = await left()
  report.figure('left at the end', countByKind(last))
  report.check('nothing is left at the end', last.length === 0, last.join(', '))
}

/** Namespaces of this run, with all that is in them. */
const FROM_THE_TEST = new RegExp(` (${ORGANIZATION}|${RECEIVERS}|${KILLERS})(/|$)`)
/** The kinds, what they are of, and what Davit keeps in its namespace, beside what every namespace has. */
const KEPT = new RegExp(
  [
    '^CustomResourceDefinition\\.apiextensions\\.k8s\\.io \\w+\\.davit\\.dev$',
    '^\\w+\\.davit\\.dev ',
    '^APIService\\.apiregistration\\.k8s\\.io v1alpha1\\.davit\\.dev$',
    `^Namespace ${DAVIT}$`,
    `^Secret ${DAVIT}/`,
    `^ServiceAccount ${DAVIT}/default$`,
    `^ConfigMap ${DAVIT}/kube-root-ca\\.crt$`,
  ].join('|'),
)
