/**
 * docs/get-started/first-webhook.md, from its `helm install` to its verified delivery, by one bash as it is written, with the receiver that the page has
 * for those who have none, and with the image of the run in the place of the one that it names.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { NodeCluster } from '../node/cluster.ts'
import { IMAGE_OF_PAGES } from './e2e-options.ts'
import { countByKind, newIn, objectsOf } from './leftovers.ts'
import { commandsOf, runCommands } from './page-script.ts'
import { DAVIT } from './pods.ts'
import { ROOT } from './prepare-image.ts'
import type { Report } from './report.ts'
import { RESTRICTED } from './restricted.ts'

const PAGE = 'docs/get-started/first-webhook.md'
const UNINSTALL = 'docs/guides/uninstall.md'
const NAMESPACE = 'Namespace '
const PAGE_LIMIT_MS = 15 * 60_000

type Setting = {
  cluster: NodeCluster
  kubeconfig: string
  image: { repository: string; tag: string }
  report: Report
}

export async function checkPage(setting: Setting): Promise<void> {
  const { cluster, kubeconfig, image, report } = setting
  const before = await objectsOf(cluster)
  // The page has Helm make it.
  const metadata = { name: DAVIT, labels: RESTRICTED }
  await cluster.apply({ apiVersion: 'v1', kind: 'Namespace', metadata })
  const env = { ...process.env, KUBECONFIG: kubeconfig }
  const run = async (what: string, blocks: readonly string[]) => {
    const say = (line: string) => report.say(line)
    const { code, output } = await runCommands(blocks, { cwd: ROOT, env, limitMs: PAGE_LIMIT_MS, say })
    report.check(what, code === 0, `exit code ${code}`)
    return output
  }
  await report.phase(PAGE, async () => {
    const page = (await readFile(join(ROOT, PAGE), 'utf8')).replaceAll(IMAGE_OF_PAGES, image.repository)
    const output = await run(`${PAGE} runs as it is written`, inOrder(page))
    report.check('its delivery is verified by hand', /^verified$/m.test(output), output.trim().slice(-80))
  })
  await report.phase('taking away what the page has made', async () => {
    const page = await readFile(join(ROOT, UNINSTALL), 'utf8')
    await run('the page can be taken back', commandsOf(page, 'Delete everything'))
    const made = newIn(await objectsOf(cluster), before).filter((each) => each.startsWith(NAMESPACE))
    for (const each of made) {
      const name = each.slice(NAMESPACE.length)
      await cluster.kubectl(['delete', 'namespace', name, '--ignore-not-found', '--timeout=55s'])
    }
  })
  const left = newIn(await objectsOf(cluster), before)
  report.figure(`left after ${PAGE}`, countByKind(left))
  report.check('nothing is left of the page', left.length === 0, left.join(', '))
}

/** The pod that receives comes where the page says: after the install, and what it got before it is verified. */
function inOrder(page: string): string[] {
  const [variables = '', install = '', ...way] = commandsOf(page)
  const verify = way.pop() ?? ''
  const [receiver = '', got = ''] = commandsOf(page, 'Run a receiver in the cluster', 'shell')
  return [variables, install, receiver, ...way, got, verify]
}
