import { readFileSync, statSync } from 'node:fs'
import { describe, expect, inject, it } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { kubectl, testNamespace } from '../support/control-plane.ts'
import { KubectlFailed } from '../support/control-plane-kubectl.ts'

describe('the control plane of the tests', () => {
  it('gives each test a namespace that is an organization', async () => {
    const [one, other] = [await testNamespace('support'), await testNamespace('support')]
    const label = '-o=jsonpath={.metadata.labels.davit\\.dev/organization}'
    expect(one).not.toBe(other)
    expect(await kubectl(['get', 'namespace', one, label])).toBe('true')
  })

  it('makes a namespace that is none where a test asks for it', async () => {
    const name = await testNamespace('support', {
      organization: false,
      annotations: { 'example.com/a': 'b' },
    })
    const namespace = JSON.parse(await kubectl(['get', 'namespace', name, '-o', 'json']))
    expect(namespace.metadata.labels).not.toHaveProperty('davit.dev/organization')
    expect(namespace.metadata.annotations).toEqual({ 'example.com/a': 'b' })
  })

  it('serves the CRDs, and kubectl finds their category', async () => {
    const listed = await kubectl(['api-resources', '--api-group=davit.dev', '-o', 'name'])
    expect(listed).toContain('webhookendpoints.davit.dev')
  })

  it('gives kubectl what it is to read, and hands back what it complains of', async () => {
    const namespace = await testNamespace('support')
    const map = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data: { key: 'värde' } }
    await kubectl(['apply', '-n', namespace, '-f', '-'], JSON.stringify(map))
    expect(await kubectl(['get', 'configmap', 'a', '-n', namespace, '-o=jsonpath={.data.key}'])).toBe('värde')
    const wrong = kubectl(['apply', '-n', namespace, '-f', '-'], JSON.stringify({ ...map, data: ['x'] }))
    await expect(wrong).rejects.toBeInstanceOf(KubectlFailed)
  })

  it('keeps the administrator key to its owner', () => {
    const path = inject('kubeconfig')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(readFileSync(path, 'utf8')).toContain('client-key-data')
  })

  it('accepts a token for davit as a review of its audience, and not as a key to itself', async () => {
    const namespace = await testNamespace('support')
    await kubectl(['create', 'serviceaccount', 'box', '-n', namespace])
    const token = (await kubectl(['create', 'token', 'box', '--audience', 'davit', '-n', namespace])).trim()
    const review = await requestApi(inject('adminAccess'), {
      method: 'POST',
      path: '/apis/authentication.k8s.io/v1/tokenreviews',
      body: {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenReview',
        spec: { token, audiences: ['davit'] },
      },
    })
    expect(review.body).toMatchObject({ status: { authenticated: true, audiences: ['davit'] } })
    const path = '/api/v1/namespaces'
    const own = await requestApi(inject('adminAccess'), { method: 'GET', path, token })
    expect(own.status).toBe(401)
  })
})
