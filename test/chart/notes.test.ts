/** Warnings that Helm prints after an install. */
import { beforeAll, describe, expect, test } from 'vitest'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { notesOf, type Values } from '../support/chart/helm.ts'

const PRIVATE = { networkPolicy: { apiServer: [{ ipBlock: { cidr: '10.0.0.1/32' } }] } }
const API_SERVER = 'WARNING: The NetworkPolicies open ports 443 and 6443 of every address'
const UNENCRYPTED =
  'WARNING: Clients outside of the cluster may use unencrypted HTTP (api.allowUnencrypted: true)'

beforeAll(() => findChartTools(), BUILD_LIMIT_MS)

async function warningsOf(values: Values): Promise<string[]> {
  return (await notesOf(values)).split('\n').filter((line) => line.startsWith('WARNING'))
}

function route(...parentRefs: object[]): Values {
  return { httpRoute: { enabled: true, parentRefs } }
}

describe('the notes warn of', () => {
  test.each<[what: string, values: Values, warnings: string[]]>([
    ['an API server that may be anywhere', {}, [API_SERVER]],
    [
      'an API server that may be at any address of IPv6',
      { networkPolicy: { apiServer: [{ ipBlock: { cidr: '10.0.0.1/32' } }, { ipBlock: { cidr: '::/0' } }] } },
      [API_SERVER],
    ],
    [
      'a load balancer without TLS',
      { ...PRIVATE, api: { service: { type: 'LoadBalancer' }, allowUnencrypted: true } },
      [UNENCRYPTED],
    ],
    [
      'an Ingress without TLS',
      {
        ...PRIVATE,
        api: { ingress: { enabled: true, hosts: [{ host: 'a.example' }] }, allowUnencrypted: true },
      },
      [UNENCRYPTED],
    ],
    [
      'a Gateway of which any listener will do',
      {
        ...PRIVATE,
        api: route({ name: 'public' }, { name: 'inner', sectionName: 'https' }, { name: 'third' }),
      },
      [
        'WARNING: The HTTPRoute also attaches to listeners for unencrypted HTTP of the Gateway public.',
        'WARNING: The HTTPRoute also attaches to listeners for unencrypted HTTP of the Gateway third.',
      ],
    ],
    ...(['HTTPS_PROXY', 'http_proxy', 'NO_PROXY', 'ALL_PROXY', 'NODE_USE_ENV_PROXY'] as const).map(
      (name): [string, Values, string[]] => [
        `a proxy that nothing uses: ${name}`,
        { ...PRIVATE, controller: { extraEnv: [{ name, value: 'http://proxy.example.com:3128' }] } },
        [`WARNING: ${name} in controller.extraEnv has no effect: Davit does not use a forward proxy.`],
      ],
    ),
  ])('%s', async (_, values, warnings) => {
    const lines = await warningsOf(values)
    expect(lines).toHaveLength(warnings.length)
    for (const [index, warning] of warnings.entries()) expect(lines[index]).toContain(warning)
  })

  test.each<[what: string, values: Values]>([
    ['one address', PRIVATE],
    ['Pods', { networkPolicy: { apiServer: [{ podSelector: {} }] } }],
    ['no policy', { networkPolicy: { enabled: false } }],
    ['a listener', { ...PRIVATE, api: route({ name: 'public', sectionName: 'https' }) }],
    ['a Service in the cluster, whatever is allowed', { ...PRIVATE, api: { allowUnencrypted: true } }],
    [
      'variables that have an effect',
      { ...PRIVATE, api: { extraEnv: [{ name: 'NODE_OPTIONS', value: '' }] } },
    ],
  ])('nothing: %s', async (_, values) => {
    expect(await warningsOf(values)).toEqual([])
  })
})
