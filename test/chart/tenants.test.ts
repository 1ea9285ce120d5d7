/** Who of an organization's people may what, once the ClusterRoles of the chart have become part of those of Kubernetes. */

import { randomBytes } from 'node:crypto'
import { beforeAll, expect, inject, test } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { type Manifest, template } from '../support/chart/helm.ts'
import { testNamespace } from '../support/control-plane.ts'
import { until } from '../support/until.ts'

const RBAC = '/apis/rbac.authorization.k8s.io/v1'
const AGGREGATE = 'rbac.authorization.k8s.io/aggregate-to-'
const SUFFIX = randomBytes(3).toString('hex')

type Rule = { apiGroups: string[]; resources: string[]; verbs: string[] }
type Role = Manifest & { rules: Rule[] }

let namespace: string

/** What the roles of Kubernetes get: `view` is part of `edit`, and that of `admin`. No controller does this here. */
const PARTS = { view: ['view'], edit: ['view', 'edit'], admin: ['view', 'edit', 'admin'] } as const

beforeAll(async () => {
  await findChartTools()
  namespace = await testNamespace('tenants')
  const rendered = await template('helm4', {}, { name: 'davit', namespace: 'davit-system' })
  const roles = rendered.filter(({ kind }) => kind === 'ClusterRole') as Role[]
  for (const [name, parts] of Object.entries(PARTS)) {
    const rules = roles
      .filter(({ metadata }) => parts.some((part) => metadata.labels?.[`${AGGREGATE}${part}`] === 'true'))
      .flatMap((role) => role.rules)
    await bind(name, rules)
  }
  await until(
    async () => (await may('view', 'get', 'webhookendpoints')) || undefined,
    () => 'the roles are not in force',
  )
}, BUILD_LIMIT_MS)

async function bind(name: string, rules: readonly Rule[]): Promise<void> {
  const role = `${name}-${SUFFIX}`
  const post = async (path: string, body: object) =>
    expect((await requestApi(inject('adminAccess'), { method: 'POST', path, body })).status).toBe(201)
  await post(`${RBAC}/clusterroles`, { metadata: { name: role }, rules })
  await post(`${RBAC}/namespaces/${namespace}/rolebindings`, {
    metadata: { name: role },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: `${name}-${SUFFIX}` }],
  })
}

async function may(who: string, verb: string, resource: string): Promise<boolean> {
  const path = '/apis/authorization.k8s.io/v1/subjectaccessreviews'
  const resourceAttributes = { namespace, verb, group: 'davit.dev', resource }
  const body = { spec: { user: `${who}-${SUFFIX}`, resourceAttributes } }
  const answer = await requestApi(inject('adminAccess'), { method: 'POST', path, body })
  return (answer.body as { status: { allowed: boolean } }).status.allowed
}

const OWNED = ['webhookendpoints', 'registrycredentials', 'secretssettings', 'boxtemplates']
const WRITES = ['create', 'update', 'patch', 'delete']

test.each(OWNED)(
  'of %s, whoever may view or edit the namespace sees them and writes none',
  async (resource) => {
    for (const who of ['view', 'edit']) {
      expect(await may(who, 'get', resource)).toBe(true)
      for (const verb of WRITES) expect(await may(who, verb, resource)).toBe(false)
    }
    expect(await may('edit', 'create', 'webhookevents')).toBe(false)
  },
)

test.each(OWNED)('of %s, an admin of the namespace is the owner', async (resource) => {
  for (const verb of ['get', ...WRITES]) expect(await may('admin', verb, resource)).toBe(true)
})

test('nobody of an organization writes deliveries', async () => {
  for (const who of Object.keys(PARTS))
    for (const verb of WRITES) expect(await may(who, verb, 'webhookdeliveries')).toBe(false)
})
