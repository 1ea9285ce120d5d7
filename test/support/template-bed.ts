/** The reconcile loop of one template on a store in memory, with a clock that a test moves. */

import {
  type BoxTemplate,
  type BoxTemplateStatus,
  boxTemplate,
  boxTemplates,
} from '../../src/apis/box-template.ts'
import { jobs, pods, serviceAccounts } from '../../src/apis/core-kinds.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import {
  type RegistryCredentialStatus,
  registryCredential,
  registryCredentials,
} from '../../src/apis/registry-credential.ts'
import { TemplateReconciler } from '../../src/boxes/controller/controller.ts'
import { BakeSlots } from '../../src/boxes/controller/quota.ts'
import { MutationCache } from '../../src/kube/mutation-cache.ts'
import { Organizations } from '../../src/kube/organizations.ts'
import { FakeClock, fixedRandom } from './fake-clock.ts'
import { ScriptedStore } from './scripted-store.ts'
import { type SeenEvent, seeingRecorder } from './seen-events.ts'

export const AT = '2026-01-31T12:00:00.000Z'
export const DIGEST = `sha256:${'0'.repeat(64)}`
/** The template, and the credential of its only service. */
export const TEMPLATE = { namespace: 'acme', name: 'shop' }
export const CREDENTIAL = { namespace: 'acme', name: 'ghcr' }

export const READY = {
  observedGeneration: 1,
  parameter: {
    name: '/davit/acme/rc_ghcr',
    version: 3,
    region: 'eu-west-1',
    account: '123456789012',
    roleArn: 'r',
  },
  conditions: [{ type: 'Ready', status: 'True', reason: 'Stored', message: '', lastTransitionTime: AT }],
}

export const SUCCESS = JSON.stringify({
  version: 1,
  state: 'succeeded',
  services: [{ name: 'api', digest: DIGEST, verified: { at: AT, ok: true } }],
})

const SERVICE = {
  name: 'api',
  kind: 'custom',
  image: 'ghcr.io/acme/api:1',
  registryCredentialId: 'rc_ghcr',
}
const SETTINGS = {
  image: 'davit:1',
  deadlineSeconds: 60,
  ttlSeconds: 60,
  cpu: '1',
  memory: '1Gi',
  scratch: '1Gi',
  realms: [],
  awsEndpoints: {},
  limits: { organization: 1, all: 2 },
  maxTemplates: 2,
}
/** Labels of objects that a bake of the template creates. */
export const LABELS = {
  'app.kubernetes.io/name': 'davit-bake',
  'app.kubernetes.io/managed-by': 'davit',
  'davit.dev/box-template': 'shop',
}
const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined }

export class TemplateBed {
  readonly clock = new FakeClock(Date.parse(AT))
  readonly store = new ScriptedStore(() => this.clock.now())
  readonly book = new MutationCache<BoxTemplate>()
  readonly organizations = new Organizations()
  readonly events: SeenEvent[] = []
  /** Outcomes of bakes, as counted by the metric. */
  readonly baked: string[] = []
  readonly turns = new BakeSlots(SETTINGS.limits, () => undefined)
  readonly #reconciler: TemplateReconciler

  constructor() {
    this.organizations.apply({ name: 'acme', uid: 'ns-1', ownerEmails: [] })
    this.#reconciler = new TemplateReconciler({
      resources: this.store,
      book: this.book,
      organizations: this.organizations,
      settings: SETTINGS,
      slots: this.turns,
      events: seeingRecorder(this.events),
      metrics: { baked: (result) => void this.baked.push(result) },
      clock: this.clock,
      random: fixedRandom(0),
      log: QUIET,
    })
  }

  /** Creates a bed with a template whose credential is ready. */
  static async make(): Promise<TemplateBed> {
    const bed = new TemplateBed()
    const { store, book } = bed
    await store.create(serviceAccounts, { metadata: { namespace: 'acme', name: 'box' } })
    await store.create(registryCredentials, {
      metadata: CREDENTIAL,
      spec: { type: 'token', label: 'GitHub', registry: 'ghcr.io', username: 'bot' },
    })
    await store.patch(registryCredentials, CREDENTIAL, { status: READY }, { subresource: 'status' })
    const object = await store.create(boxTemplates, {
      apiVersion: API_VERSION,
      kind: 'BoxTemplate',
      metadata: TEMPLATE,
      spec: { services: [SERVICE], instanceRole: { serviceAccountName: 'box' } },
    })
    book.apply(boxTemplate.parse(object))
    return bed
  }

  pass(key = 'acme/shop') {
    return this.#reconciler.reconcile(key)
  }

  async status(): Promise<BoxTemplateStatus | undefined> {
    return boxTemplate.parse(await this.store.get(boxTemplates, TEMPLATE)).status
  }

  async credentialStatus(): Promise<RegistryCredentialStatus | undefined> {
    return registryCredential.parse(await this.store.get(registryCredentials, CREDENTIAL)).status
  }

  /** Bypasses the script. */
  async makeJob(metadata: { name: string; labels?: object; ownerReferences?: object[] }): Promise<void> {
    await this.store.create(jobs, { metadata: { namespace: 'acme', ...metadata } })
  }

  /** Ends the only Job like Kubernetes does. */
  async endJob(message: string): Promise<void> {
    const [job] = this.store.all(jobs)
    const { name = '', uid } = job?.metadata ?? {}
    const metadata = {
      namespace: 'acme',
      name: `${name}-x`,
      ownerReferences: [{ kind: 'Job', name, uid }],
      labels: LABELS,
    }
    await this.store.create(pods, { metadata })
    const terminated = { exitCode: 0, message, reason: 'Completed' }
    const pod = { phase: 'Succeeded', containerStatuses: [{ name: 'bake', state: { terminated } }] }
    await this.store.patch(pods, metadata, { status: pod }, { subresource: 'status' })
    const conditions = [{ type: 'Complete', status: 'True', reason: 'x', message: 'x' }]
    const ref = { namespace: 'acme', name }
    await this.store.patch(jobs, ref, { status: { conditions } }, { subresource: 'status' })
  }
}
