/** Boxes that are baked in pods of the node. */

import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { API_VERSION } from '../../src/apis/meta.ts'
import { CREDENTIAL_PROVIDER_VERSION } from '../../src/boxes/node/kubelet-provider.ts'
import { leaksIn, leaksInFolder } from '../support/bake/canary.ts'
import { PROGRAMS } from '../support/box/box-bed.ts'
import { AUDIENCE, ROLE_KEY, SERVICE_ACCOUNT } from '../support/kubelet/pod-role.ts'
import type { TestRegistry } from '../support/registry/test-registry.ts'
import { until } from '../support/until.ts'
import { type BakeSetting, CLAIM, ORGANIZATION, prepareBakes } from './bake-setting.ts'
import { NodeCluster } from './cluster.ts'
import type { Findings } from './findings.ts'
import type { NodeOptions } from './node-options.ts'
import { ONE, OPEN, pushImages, startPrivateRegistry } from './private-registry.ts'

const BAKE_LIMIT_MS = 300_000

export async function checkBakes(options: NodeOptions, findings: Findings): Promise<void> {
  await using stack = new AsyncDisposableStack()
  const cluster = new NodeCluster(options.kubeconfig)
  const folder = await mkdtemp(join(tmpdir(), 'davit-node-'))
  stack.defer(() => rm(folder, { recursive: true }))
  const registry = await startPrivateRegistry(options.address)
  stack.defer(() => registry.stop())
  const digests = await pushImages(registry)
  const setting = await prepareBakes(options, cluster, { folder, registry })
  stack.defer(() => setting.stop())
  await new BakeChecks({ cluster, registry, digests, setting, folder, findings }).run()
}

type Given = {
  cluster: NodeCluster
  registry: TestRegistry
  digests: Readonly<Record<string, string>>
  setting: BakeSetting
  folder: string
  findings: Findings
}

type Template = { status?: { bake?: BakeStatus } }

type BakeStatus = {
  state?: string
  job?: string
  failure?: { code: string; message: string; fix: string }
  services?: { name: string; digest?: string; credential?: { id: string; why: string } }[]
}

/** How a bake ended, and what its pod wrote. */
type Baked = { bake: BakeStatus; log: string }

class BakeChecks {
  readonly #of: Given

  constructor(of: Given) {
    this.#of = of
  }

  async run(): Promise<void> {
    const { findings } = this.#of
    const baked: Baked[] = []
    await findings.part('the bake with a good password', async () => {
      const good = await this.#bake('good', 'rc_good')
      baked.push(good)
      await this.#isBaked(good)
    })
    await findings.part('the use of what is baked', () => this.#isUsed())
    await findings.part('the bake with a wrong password', async () => {
      const wrong = await this.#bake('wrong', 'rc_wrong')
      baked.push(wrong)
      this.#isRefused(wrong)
    })
    await findings.part('the look for secrets', () => this.#leaks(baked))
  }

  /** @returns its state at the end of its bake */
  async #bake(name: string, registryCredentialId: string): Promise<Baked> {
    const { cluster, registry, findings } = this.#of
    const image = (repository: string) => `${registry.host}/${repository}:1`
    const begin = performance.now()
    await cluster.apply({
      apiVersion: API_VERSION,
      kind: 'BoxTemplate',
      metadata: { namespace: ORGANIZATION, name },
      spec: {
        services: [
          { name: 'api', kind: 'custom', image: image(ONE.repository), registryCredentialId },
          { name: 'page', kind: 'catalog', image: image(OPEN) },
        ],
        instanceRole: { serviceAccountName: SERVICE_ACCOUNT },
        output: { persistentVolumeClaim: CLAIM },
      },
    })
    let last = ''
    const bake = await until(
      async () => {
        const { status } = await cluster.get<Template>('boxtemplate', name, '-n', ORGANIZATION)
        last = JSON.stringify(status)
        const { state } = status?.bake ?? {}
        return state === 'succeeded' || state === 'failed' ? status?.bake : undefined
      },
      () => `the bake of ${name} stays ${last}`,
      BAKE_LIMIT_MS,
    )
    const seconds = ((performance.now() - begin) / 1000).toFixed(1)
    const log = await this.#logOf(bake.job)
    findings.check(
      `a bake of ${name} comes to an end in a pod`,
      log !== '',
      `${bake.state} after ${seconds} s`,
    )
    return { bake, log }
  }

  async #logOf(job: string | undefined): Promise<string> {
    if (job === undefined) return ''
    return await this.#of.cluster.kubectl(['logs', '-n', ORGANIZATION, `job/${job}`])
  }

  async #isBaked({ bake, log }: Baked): Promise<void> {
    const { findings, setting, digests, cluster } = this.#of
    const [api, page] = bake.services ?? []
    findings.check(
      'every service has the digest that was pushed',
      api?.digest === digests[ONE.repository] && page?.digest === digests[OPEN],
      JSON.stringify(bake.failure ?? bake.services),
    )
    const read = async (name: string) => {
      const text = await readFile(join(setting.boxes, 'good', name), 'utf8').catch(() => '{}')
      return JSON.parse(text) as Record<string, unknown>
    }
    const { manifests = [] } = (await read('index.json')) as { manifests?: object[] }
    const { credentials = [] } = (await read('credentials.json')) as { credentials?: object[] }
    findings.check(
      'the layout and its map are on the volume',
      manifests.length === 2 && credentials.length === 1,
      JSON.stringify(credentials),
    )
    const readers = setting.aws.emulator.trail
      .entries({ operation: 'GetParameter' })
      .filter(({ error }) => error === undefined)
      .map(({ principal }) => principal)
    findings.check(
      'the secret was read as the role of the box alone, with the projected token',
      readers.length > 0 && readers.every((reader) => reader?.includes(':assumed-role/box/')),
      readers.join(),
    )
    const pods = await cluster.get<{ items: { spec: object; metadata: { annotations?: object } }[] }>(
      'pods',
      '-n',
      ORGANIZATION,
    )
    findings.check(
      'its pod has no token for the API server',
      !JSON.stringify(pods).includes('kube-api-access'),
      `${pods.items.length} pods, ${log.length} characters of log`,
    )
  }

  /** A kubelet that has the volume's map would get this for a pod of the box. */
  async #isUsed(): Promise<void> {
    const { cluster, registry, setting, findings } = this.#of
    const audience = ['--audience', AUDIENCE]
    const token = await cluster.kubectl(['create', 'token', SERVICE_ACCOUNT, '-n', ORGANIZATION, ...audience])
    const image = `${registry.host}/${ONE.repository}`
    const input = JSON.stringify({
      apiVersion: CREDENTIAL_PROVIDER_VERSION,
      kind: 'CredentialProviderRequest',
      image,
      serviceAccountToken: token.trim(),
      serviceAccountAnnotations: { [ROLE_KEY]: setting.roleArn },
    })
    const { AWS_ENDPOINT_URL = '' } = setting.aws.environment()
    const running = promisify(execFile)(join(PROGRAMS, 'davit-credential-provider'), [], {
      env: { PATH: process.env.PATH, AWS_ENDPOINT_URL, DAVIT_CREDENTIALS: await this.#maps() },
    })
    running.child.stdin?.end(input)
    const { stdout, stderr } = await running
    findings.check(
      'the map that the bake has left opens the image for a pod of the box',
      stdout.includes(JSON.stringify({ [image]: { username: ONE.user, password: ONE.secret } })),
      stderr.trim(),
    )
  }

  /** As docs/guides/pull-images.md brings maps to a node: into a folder for each organization, which pods cannot write. */
  async #maps(): Promise<string> {
    const { setting, folder } = this.#of
    const maps = join(folder, 'maps')
    const place = join(maps, ORGANIZATION, 'good')
    await mkdir(place, { recursive: true, mode: 0o755 })
    // The credentials of the user who brings the image: a copy would belong to the user of the bake.
    const map = await readFile(join(setting.boxes, 'good', 'credentials.json'))
    await writeFile(join(place, 'credentials.json'), map)
    return maps
  }

  #isRefused({ bake }: Baked): void {
    this.#of.findings.check(
      'a wrong password fails the bake with the words of the tool',
      bake.state === 'failed' && bake.failure?.code === 'wrong_credentials',
      JSON.stringify(bake.failure),
    )
  }

  async #leaks(bakes: readonly { log: string }[]): Promise<void> {
    const { cluster, setting, folder, findings } = this.#of
    const objects = 'events,pods,jobs,boxtemplates,registrycredentials'
    const texts = [
      ...bakes.map(({ log }) => log),
      await cluster.kubectl(['get', objects, '-A', '-o', 'json']),
      await readFile(join(folder, 'controller.log'), 'utf8'),
    ]
    const found = [
      ...texts.flatMap((text) => leaksIn(text, ONE.secret, ONE.user)),
      ...leaksInFolder(setting.boxes, ONE.secret, ONE.user),
    ]
    findings.check(
      'no secret is in logs, Events, objects or on the volume',
      found.length === 0,
      found.join() || 'none',
    )
  }
}
