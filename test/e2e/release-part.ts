/** An installation of the chart from its first pod to its last leftover: admission, load, a death, an upgrade, a bake, an uninstall. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { NodeCluster } from '../node/cluster.ts'
import { BAKE_CA, checkBake } from './bake-part.ts'
import { type Cloud, startCloud } from './cloud.ts'
import { waitFor } from './commands.ts'
import { HelmRelease } from './helm-release.ts'
import { KILLERS, killProcess } from './killer.ts'
import { objectsOf } from './leftovers.ts'
import { makeNamespaces, ORGANIZATION } from './namespaces.ts'
import { DAVIT, memoryOf, podsOf, ROLES, secondsToReady } from './pods.ts'
import { PortForward } from './port-forward.ts'
import { RECEIVERS, ReceiverPod } from './receiver-pod.ts'
import { Removal } from './removal.ts'
import type { Report } from './report.ts'
import { ENDPOINTS, RestStream } from './rest-stream.ts'
import { checkTenants } from './tenants-part.ts'

const API_PORT = 80
/** Nothing happens then. */
const REST_MS = 30_000
const ARRIVAL_LIMIT_MS = 180_000

export type Setting = {
  cluster: NodeCluster
  kubeconfig: string
  address: string
  folder: string
  image: { repository: string; tag: string }
  events: number
  steadyEvents: number
  eventsPerSecond: number
  report: Report
}

export class ReleasePart {
  readonly #of: Setting
  readonly #helm: HelmRelease

  constructor(setting: Setting) {
    this.#of = setting
    this.#helm = new HelmRelease(setting.cluster, setting)
  }

  async run(): Promise<void> {
    const { cluster, kubeconfig, address, report } = this.#of
    await using stack = new AsyncDisposableStack()
    const before = await report.phase('what there is in the cluster', () => objectsOf(cluster))
    stack.defer(() => cluster.remove('namespace', KILLERS, RECEIVERS, ORGANIZATION))
    await makeNamespaces(cluster)
    const receiver = await report.phase('the receiver, as a pod', () =>
      ReceiverPod.start({ cluster, kubeconfig }, this.#image),
    )
    stack.defer(() => receiver.stop())
    const cloud = await report.phase('AWS and a registry, as doubles', () =>
      startCloud({
        kubeconfig,
        address,
        organization: ORGANIZATION,
        kubectl: (args) => cluster.kubectl(args),
      }),
    )
    stack.defer(() => cloud.stop())
    const values = this.#values(receiver, cloud)
    await this.#install(values)
    await this.#deliver(receiver, values)
    await report.phase('connecting the organization', () => cloud.connect())
    await report.phase('a bake', () => checkBake({ cluster, cloud, report }, ORGANIZATION))
    await this.#isRestricted()
    await report.phase('roles of people', () => checkTenants(this.#of, ORGANIZATION))
    const removal = new Removal(this.#of, { helm: this.#helm, cloud, before, values })
    await removal.uninstall()
    await removal.organizationFirst()
    await removal.everything()
    await removal.davitFirst()
  }

  get #image(): string {
    const { repository, tag } = this.#of.image
    return `${repository}:${tag}`
  }

  #values(receiver: ReceiverPod, cloud: Cloud): object {
    return {
      image: this.#of.image,
      config: {
        allowedNetworks: [`${receiver.address}/32`],
        awsEndpointUrl: cloud.url,
        bakeCaConfigMap: BAKE_CA,
        bakeCpu: '100m',
        bakeScratch: '1Gi',
      },
      aws: { region: 'eu-west-1', identity: 'web-identity', roleArn: cloud.operatorRole },
      organizations: [ORGANIZATION],
      networkPolicy: {
        extraEgress: [
          { to: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': RECEIVERS } } }] },
          { to: [{ ipBlock: { cidr: `${this.#of.address}/32` } }] },
        ],
      },
    }
  }

  async #install(values: object): Promise<void> {
    const { cluster, report } = this.#of
    await report.phase('helm install, until both Deployments are ready', async () => {
      await this.#helm.apply('install', values)
      await this.#helm.rolledOut()
    })
    for (const role of ROLES) {
      const pods = await podsOf(cluster, role)
      report.check(`there are two pods of the ${role}`, pods.length === 2, `${pods.length}`)
      const seconds = pods.map(secondsToReady).join(', ')
      report.figure(`${role}: ready after its container's start`, `${seconds} s`)
    }
    await report.phase('helm test', async () => {
      const output = await this.#helm.test()
      report.check(
        'helm test succeeds',
        !output.includes('Failed'),
        output.match(/Phase: +\w+/g)?.join() ?? output,
      )
    })
    await report.phase('rest', () => sleep(REST_MS))
    await this.#memory('at rest')
  }

  async #memory(when: string): Promise<void> {
    const { cluster, report } = this.#of
    for (const role of ROLES) report.figure(`${role}: RSS ${when}`, await memoryOf(cluster, role))
  }

  async #deliver(receiver: ReceiverPod, values: object): Promise<void> {
    const { cluster, kubeconfig, events, steadyEvents, eventsPerSecond, report } = this.#of
    const target = { namespace: DAVIT, target: 'service/davit-api', port: API_PORT }
    const forward = await PortForward.start(kubeconfig, target)
    try {
      const stream = new RestStream(forward, ORGANIZATION, await this.#key())
      await stream.makeEndpoints(receiver)
      const begin = performance.now()
      const publishing = stream.publish(events, eventsPerSecond)
      // It is waited for below, whatever happens before.
      publishing.catch(() => {})
      await this.#disturb(values, events / eventsPerSecond)
      await report.phase('the rest of the stream', () => publishing)
      const seconds = (performance.now() - begin) / 1000
      report.figure('events accepted', `${stream.accepted} in ${seconds.toFixed(0)} s`)
      const before = stream.deliveries
      await report.phase('more events, undisturbed', () => stream.publish(steadyEvents, eventsPerSecond))
      report.figure('requests made again, port-forwards', `${stream.retries}, ${forward.times}`)
      report.check('no event is refused', stream.refused.length === 0, stream.refused.slice(0, 3).join('; '))
      await this.#arrived(receiver, stream)
      await this.#memory(`after ${stream.deliveries - before} deliveries by the same pods`)
    } finally {
      await forward.stop()
    }
    const pods = await Promise.all(ROLES.map((role) => podsOf(cluster, role)))
    const restarts = pods.flat().flatMap(({ status }) => status.containerStatuses?.[0]?.restartCount ?? 0)
    report.check(
      'no pod of the upgrade has restarted',
      restarts.every((count) => count === 0),
      restarts.join(),
    )
  }

  async #key(): Promise<string> {
    const { cluster } = this.#of
    const account = 'owner'
    const inside = ['-n', ORGANIZATION]
    await cluster.kubectl(['create', 'serviceaccount', account, ...inside])
    const role = ['--clusterrole=davit-owner', `--serviceaccount=${ORGANIZATION}:${account}`]
    await cluster.kubectl(['create', 'rolebinding', account, ...inside, ...role])
    const token = ['--audience=davit', '--duration=2h']
    return (await cluster.kubectl(['create', 'token', account, ...inside, ...token])).trim()
  }

  /** While events come. @param seconds how long they do */
  async #disturb(values: object, seconds: number): Promise<void> {
    const { cluster, report } = this.#of
    await sleep(seconds * 100)
    await report.phase('SIGKILL of a controller', async () => {
      const [victim] = await podsOf(cluster, 'controller')
      if (victim === undefined) throw new Error('there is no controller')
      const { name } = victim.metadata
      report.say(await killProcess(cluster, DAVIT, name, this.#image))
      await waitFor('its next process', async () => {
        const pod = (await podsOf(cluster, 'controller')).find(({ metadata }) => metadata.name === name)
        const isReady = pod?.status.conditions?.some(
          (each) => each.type === 'Ready' && each.status === 'True',
        )
        return isReady && pod?.status.containerStatuses?.[0]?.restartCount === 1 ? true : undefined
      })
    })
    await report.phase('a pod of each role deleted without grace', async () => {
      for (const role of ROLES) {
        const [victim] = await podsOf(cluster, role)
        const name = victim?.metadata.name ?? ''
        await cluster.kubectl(['delete', 'pod', name, '-n', DAVIT, '--grace-period=0', '--force'])
      }
      await this.#helm.rolledOut()
    })
    await report.phase('a rolling upgrade', async () => {
      const annotations = ROLES.map((role) => `${role}.podAnnotations.davit-e2e=again`)
      await this.#helm.apply('upgrade', values, annotations)
      await this.#helm.rolledOut()
    })
  }

  async #arrived(receiver: ReceiverPod, stream: RestStream): Promise<void> {
    const { report } = this.#of
    await report.phase('the last arrivals', async () => {
      const seen = () => Promise.all(ENDPOINTS.map(({ path }) => receiver.seen(path)))
      const isThere = async () => {
        const missing = (await seen()).flatMap((each, index) => {
          const endpoint = ENDPOINTS[index]
          return endpoint ? stream.lost(endpoint, each) : []
        })
        return missing.length === 0 ? true : undefined
      }
      // Lost ones are reported below.
      await waitFor('all arrivals', isThere, ARRIVAL_LIMIT_MS).catch(() => undefined)
    })
    let received = 0
    for (const endpoint of ENDPOINTS) {
      const { path, ordered } = endpoint
      const seen = await receiver.seen(path)
      received += seen.first.length
      const lost = stream.lost(endpoint, seen)
      const figures = `received ${seen.first.length}, lost ${lost.length}, twice ${seen.requests - seen.first.length}`
      report.figure(`deliveries to ${path}`, figures)
      report.check(`nothing is lost at ${path}`, lost.length === 0, lost.slice(0, 5).join())
      report.check(`every request to ${path} is signed`, seen.unsigned === 0, `${seen.unsigned} are not`)
      if (!ordered) continue
      const wrong = stream.outOfOrder(endpoint, seen)
      report.check(`what came to ${path} is in order`, wrong === 0, `${wrong} too early`)
    }
    report.figure('deliveries', `${received} of ${stream.deliveries}`)
  }

  /** A rejection shows that the standard is enforced, and that the existing pods comply with it. */
  async #isRestricted(): Promise<void> {
    const { cluster, report } = this.#of
    for (const namespace of [DAVIT, ORGANIZATION]) {
      const metadata = { namespace, name: 'unfit' }
      const spec = { hostNetwork: true, containers: [{ name: 'main', image: this.#image }] }
      const pod = JSON.stringify({ apiVersion: 'v1', kind: 'Pod', metadata, spec })
      const output = await cluster.kubectl(['create', '--dry-run=server', '-f', '-'], pod).catch(String)
      report.check(
        `${namespace} takes restricted pods only`,
        output.includes('violates PodSecurity'),
        /violates PodSecurity "[^"]+"/.exec(output)?.[0] ?? output,
      )
      const events = await cluster.kubectl(['get', 'events', '-n', namespace, '-o', 'json'])
      report.check(
        `no pod was refused in ${namespace}`,
        !events.includes('violates PodSecurity'),
        `${events.length} characters`,
      )
    }
  }
}
