/** What people may do with Davit's kinds by the roles that Kubernetes has for everybody, as the cluster itself has put these together. */
import { API_VERSION } from '../../src/apis/meta.ts'
import type { NodeCluster } from '../node/cluster.ts'
import { waitFor } from './commands.ts'
import type { Report } from './report.ts'

const ROLES = ['view', 'edit', 'admin'] as const
const SPECS = {
  WebhookEndpoint: { url: 'https://receiver.example.com/', eventTypes: ['*'] },
  RegistryCredential: {
    type: 'ecr',
    label: 'ECR',
    registry: '123456789012.dkr.ecr.eu-west-1.amazonaws.com',
  },
} as const

export async function checkTenants(
  { cluster, report }: { cluster: NodeCluster; report: Report },
  namespace: string,
): Promise<void> {
  for (const role of ROLES)
    await cluster.kubectl([
      ...['create', 'rolebinding', personOf(role), `--clusterrole=${role}`],
      ...[`--user=${personOf(role)}`, '-n', namespace],
    ])
  const asPerson = (role: string, args: readonly string[], stdin?: string) =>
    cluster.kubectl([...args, `--as=${personOf(role)}`, '-n', namespace], stdin).catch(String)
  await waitFor('the roles of Kubernetes with those of Davit', async () =>
    (await asPerson('admin', ['auth', 'can-i', 'create', 'webhookendpoints'])).startsWith('yes')
      ? true
      : undefined,
  )
  for (const [kind, spec] of Object.entries(SPECS)) {
    const object = JSON.stringify({ apiVersion: API_VERSION, kind, metadata: { name: 'tried' }, spec })
    for (const role of ROLES) {
      const output = await asPerson(role, ['create', '--dry-run=server', '-f', '-'], object)
      const is =
        role === 'admin' ? output.includes('created (server dry run)') : output.includes('is forbidden')
      const what = role === 'admin' ? 'may' : 'may not'
      report.check(`${role} ${what} write a ${kind}`, is, output.trim().slice(0, 200))
    }
  }
}

function personOf(role: string): string {
  return `e2e-${role}`
}
