/** Pods without imagePullSecrets, whose images the node's kubelet pulls with davit-credential-provider. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ACCOUNT, BoxBed, PROGRAMS } from '../support/box/box-bed.ts'
import { blockOf } from '../support/box/page.ts'
import { addPodRole, ROLE_KEY, SERVICE_ACCOUNT, trustIssuer } from '../support/kubelet/pod-role.ts'
import type { TestRegistry } from '../support/registry/test-registry.ts'
import { until } from '../support/until.ts'
import { NodeCluster } from './cluster.ts'
import type { Findings } from './findings.ts'
import { KubeletProcess } from './kubelet-process.ts'
import type { NodeOptions } from './node-options.ts'
import { ONE, OPEN, pushImages, startPrivateRegistry, TWO, trustRegistry } from './private-registry.ts'

const ACME = 'davit-node-acme'
const GLOBEX = 'davit-node-globex'
const PROVIDER = 'davit-credential-provider'
/** Of the page. */
const RIGHT = 'davit-kubelet-audience'

export async function checkPulls(options: NodeOptions, findings: Findings): Promise<void> {
  await using stack = new AsyncDisposableStack()
  const cluster = new NodeCluster(options.kubeconfig)
  const bed = await BoxBed.start()
  stack.defer(() => bed.stop())
  const registry = await startPrivateRegistry(options.address)
  stack.defer(() => registry.stop())
  stack.defer(await trustRegistry(options.registryHosts, bed.folder, registry))
  const digests = await pushImages(registry)
  stack.defer(() => cluster.remove('namespace', ACME, GLOBEX))
  stack.defer(() => cluster.remove('clusterrole,clusterrolebinding', RIGHT))
  await prepare(cluster, bed, registry.host)
  const log = join(bed.folder, 'kubelet.log')
  const kubelet = await KubeletProcess.find(options.kubeletPidFile)
  const begin = Date.now()
  stack.defer(() => kubelet.startAgain())
  await kubelet.startAgain(await providerArguments(bed, registry.host), log)
  await cluster.untilReady(begin)
  await new PullChecks({ cluster, bed, registry, digests, log, findings }).run()
}

async function prepare(cluster: NodeCluster, bed: BoxBed, host: string): Promise<void> {
  const issuer = await trustIssuer(bed.account, (args) => cluster.kubectl(args))
  const namespace = (name: string) => ({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name, labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } },
  })
  const serviceAccount = (of: string) => ({
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: {
      namespace: of,
      name: SERVICE_ACCOUNT,
      annotations: { [ROLE_KEY]: `arn:aws:iam::${ACCOUNT}:role/${of}` },
    },
  })
  for (const name of [ACME, GLOBEX]) addPodRole(bed.account, { name, namespace: name, issuer })
  await cluster.apply(...[ACME, GLOBEX].map(namespace), ...[ACME, GLOBEX].map(serviceAccount))
  const token = (id: string, { user, secret, repository }: typeof ONE) =>
    bed.token({ id, registry: host, repositories: [repository], secret, username: user, organization: ACME })
  await bed.map('web', [await token('rc_one', ONE), await token('rc_two', TWO)], ACME)
}

/** The configuration of the page, for this registry, and for AWS as it is here. */
async function providerArguments(bed: BoxBed, host: string): Promise<string[]> {
  const { DAVIT_CREDENTIALS = '', AWS_ENDPOINT_URL = '' } = bed.environment()
  const text = blockOf('yaml', 'CredentialProviderConfig')
    .replace('registry.example.com:5000', host)
    .replace(
      'value: /etc/davit',
      `value: ${DAVIT_CREDENTIALS}\n      - { name: AWS_ENDPOINT_URL, value: "${AWS_ENDPOINT_URL}" }`,
    )
  const path = join(bed.folder, 'kubelet.yaml')
  await writeFile(path, text)
  return [`--image-credential-provider-config=${path}`, `--image-credential-provider-bin-dir=${PROGRAMS}`]
}

type Setting = {
  cluster: NodeCluster
  bed: BoxBed
  registry: TestRegistry
  digests: Readonly<Record<string, string>>
  /** Of the kubelet. */
  log: string
  findings: Findings
}

class PullChecks {
  readonly #of: Setting
  #pods = 0

  constructor(of: Setting) {
    this.#of = of
  }

  async run(): Promise<void> {
    await this.#needsRight()
    for (const { user, repository } of [ONE, TWO]) await this.#pulls(ACME, repository, user)
    await this.#pulls(ACME, OPEN, undefined)
    await this.#asksOnce()
    await this.#refused('an image that no map knows', ACME, 'three/api')
    await this.#refused('an image of another organization', GLOBEX, ONE.repository)
    await this.#there()
    await this.#saysWhy()
    await this.#leaks()
  }

  /** Until there is the rule of the page. */
  async #needsRight(): Promise<void> {
    const { cluster, findings } = this.#of
    const { came } = await this.#pod(ACME, ONE.repository)
    const line = await this.#logged(/failed to get service account token[^\n]*/)
    findings.check('without the right to ask for the audience a pod is refused', /ImagePull/.test(came), line)
    await cluster.kubectl(['apply', '-f', '-'], blockOf('yaml', 'request-serviceaccounts-token-audience'))
  }

  /** @param user who the registry has seen */
  async #pulls(namespace: string, repository: string, user: string | undefined): Promise<void> {
    const { registry, digests, findings } = this.#of
    registry.tokens.requests.length = 0
    const begin = performance.now()
    const { came, message, image } = await this.#pod(namespace, repository)
    const users = [...new Set(registry.tokens.requests.map((request) => request.user))]
    const is = came === 'Succeeded' && image === digests[repository] && users.every((one) => one === user)
    const seconds = ((performance.now() - begin) / 1000).toFixed(1)
    findings.check(
      `${namespace} runs ${repository} without an imagePullSecret`,
      is && users.length > 0,
      `${came} ${message} after ${seconds} s, pulled as ${users.join() || 'nobody'}`,
    )
  }

  /** Within the time for which kubelet keeps a login. */
  async #asksOnce(): Promise<void> {
    const { bed, findings } = this.#of
    const before = bed.aws.trail.entries({ operation: 'GetParameter' }).length
    const { came } = await this.#pod(ACME, ONE.repository)
    const more = bed.aws.trail.entries({ operation: 'GetParameter' }).length - before
    findings.check(
      'a second pod pulls with what kubelet keeps',
      came === 'Succeeded' && more === 0,
      `${came}, ${more} reads of the parameter`,
    )
  }

  async #refused(what: string, namespace: string, repository: string): Promise<void> {
    const { came, message } = await this.#pod(namespace, repository)
    this.#of.findings.check(`${what} is refused`, /ImagePull/.test(came), `${came} ${message}`)
  }

  /** The node has it, of a pod that was allowed to pull it. */
  async #there(): Promise<void> {
    const { came, message } = await this.#pod(GLOBEX, ONE.repository, 'IfNotPresent')
    this.#of.findings.check(
      'an image of another organization that the node has already is refused too',
      came !== 'Succeeded',
      `${came} ${message}`,
    )
  }

  async #saysWhy(): Promise<void> {
    const { cluster, bed, findings } = this.#of
    const role = bed.account.addRole('nobody', {
      trust: { Version: '2012-10-17', Statement: [] },
      policies: {},
    })
    const annotation = `${ROLE_KEY}=${role.arn}`
    await cluster.kubectl([
      'annotate',
      'serviceaccount',
      SERVICE_ACCOUNT,
      '-n',
      ACME,
      '--overwrite',
      annotation,
    ])
    const { came } = await this.#pod(ACME, ONE.repository)
    const line = await this.#logged(/davit-credential-provider: rc_one: [^"\\\n]*/)
    findings.check(
      'a role that does not trust the pod is refused, and the log of kubelet says why',
      /ImagePull/.test(came),
      `${came}; ${line}`,
    )
  }

  async #logged(words: RegExp): Promise<string> {
    const { log } = this.#of
    return await until(
      async () => words.exec(await readFile(log, 'utf8'))?.[0],
      () => `the log of the kubelet has not ${words}`,
    )
  }

  async #leaks(): Promise<void> {
    const { log, findings, cluster } = this.#of
    const texts = [
      await readFile(log, 'utf8'),
      await cluster.kubectl(['get', 'events,pods', '-A', '-o', 'json']),
    ]
    const secrets = [ONE, TWO].flatMap(({ user, secret }) => [
      secret,
      Buffer.from(`${user}:${secret}`).toString('base64'),
    ])
    const found = secrets.filter((secret) => texts.some((text) => text.includes(secret)))
    const used = texts[0]?.includes(PROVIDER) === true
    findings.check(
      "no secret is in kubelet's log, in Events or in pods",
      found.length === 0 && used,
      `${found.length} found in ${texts.reduce((sum, { length }) => sum + length, 0)} characters`,
    )
  }

  async #pod(namespace: string, repository: string, imagePullPolicy = 'Always') {
    const { cluster, registry } = this.#of
    this.#pods += 1
    const name = `pod-${this.#pods}`
    await cluster.apply({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { namespace, name },
      spec: {
        serviceAccountName: SERVICE_ACCOUNT,
        automountServiceAccountToken: false,
        restartPolicy: 'Never',
        securityContext: {
          runAsNonRoot: true,
          runAsUser: 65_532,
          seccompProfile: { type: 'RuntimeDefault' },
        },
        containers: [
          {
            name: 'program',
            image: `${registry.host}/${repository}:1`,
            imagePullPolicy,
            securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
          },
        ],
      },
    })
    return await cluster.comesOf(namespace, name)
  }
}
