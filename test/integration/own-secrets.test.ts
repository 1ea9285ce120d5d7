/** Who may read every Secret of an organization, and all of Davit's objects there, has none of the signing keys. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { secret, secrets } from '../../src/apis/core-kinds.ts'
import { signingSecretName } from '../../src/webhooks/endpoints/directory.ts'
import { applyRoles, makeAccount, makeToken } from '../support/api-keys.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { until } from '../support/until.ts'

const ENDPOINT = 'billing'

let davit: TestDavit
/** For the API server: of an owner who may do everything with the Secrets of the organization. */
let token: string
let signingSecret: string

const ask = (method: string, path: string, body?: object) =>
  requestApi(inject('adminAccess'), { method, path, token, ...(body ? { body } : {}) })

beforeAll(async () => {
  davit = await startDavit('own-secrets')
  signingSecret = (await davit.endpoint(ENDPOINT, { url: 'https://127.0.0.1:1/' })).secret
  await applyRoles()
  await makeAccount(davit.organization, 'reader', 'davit-owner')
  await letReadSecrets(davit.organization, 'reader')
  token = await makeToken(davit.organization, 'reader', { audiences: [] })
  // The API server takes a moment to know a new role.
  await until(
    async () => (await ask('GET', secretsOf(davit.organization))).status === 200 || undefined,
    () => 'the Secrets of the organization cannot be read',
  )
})

afterAll(async () => {
  await davit?.stop()
})

/** As an administrator does who grants `admin` or `edit` of a namespace. */
async function letReadSecrets(namespace: string, name: string): Promise<void> {
  const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`
  const metadata = { name: 'secrets' }
  const rules = [{ apiGroups: [''], resources: ['secrets'], verbs: ['*'] }]
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'secrets' }
  const subjects = [{ kind: 'ServiceAccount', name, namespace }]
  for (const [path, body] of [
    [`${rbac}/roles`, { metadata, rules }],
    [`${rbac}/rolebindings`, { metadata, roleRef, subjects }],
  ] as const) {
    const { status } = await requestApi(inject('adminAccess'), { method: 'POST', path, body })
    expect(status).toBe(201)
  }
}

function secretsOf(namespace: string): string {
  return `/api/v1/namespaces/${namespace}/secrets`
}

describe('who may do everything with the Secrets of an organization', () => {
  test.each(['GET', 'DELETE', 'PATCH', 'PUT'])(
    'can not %s the Secret of its signing keys',
    async (method) => {
      const name = signingSecretName(davit.organization, ENDPOINT)
      const { data } = secret.parse(await davit.api.get(secrets, { namespace: davit.namespace, name }))
      const stored = Buffer.from(Object.values(data ?? {})[0] ?? '', 'base64').toString('utf8')
      expect(stored).toContain(signingSecret)
      const body = method === 'PATCH' || method === 'PUT' ? { metadata: { name } } : undefined
      const { status } = await ask(method, `${secretsOf(davit.namespace)}/${name}`, body)
      expect(status).toBe(403)
    },
  )

  test('can not list or watch those of Davit, nor those of all namespaces', async () => {
    for (const path of [secretsOf(davit.namespace), '/api/v1/secrets'])
      for (const query of ['', '?watch=true', '?fieldSelector=metadata.name%3Dany'])
        expect({ path, query, status: (await ask('GET', path + query)).status }).toEqual({
          path,
          query,
          status: 403,
        })
  })

  test('finds no key in anything that the organization has', async () => {
    const own = `/apis/davit.dev/v1alpha1/namespaces/${davit.organization}`
    const paths = [
      secretsOf(davit.organization),
      ...['webhookendpoints', 'webhookdeliveries', 'webhookevents'].map((plural) => `${own}/${plural}`),
    ]
    const bare = signingSecret.replace('whsec_', '')
    for (const path of paths) {
      const { status, body } = await ask('GET', path)
      expect(status).toBe(200)
      const text = JSON.stringify(body)
      expect(text).not.toContain(bare)
      expect(text).not.toContain(Buffer.from(signingSecret).toString('base64'))
    }
    expect(bare.length).toBeGreaterThan(20)
  })
})
