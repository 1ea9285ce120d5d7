/** What people do with kubectl, by their role. */
import { join } from 'node:path'
import { KubectlFailed, runKubectl } from './control-plane-kubectl.ts'
import type { Installation, RoleName } from './installation.ts'

type Use = {
  args: string
  /** For `-f -`. */
  stdin?: string
  /** A watch does not end by itself, and fails when its time is up. */
  watches?: boolean
}

/** Duration of a watch. */
const WATCH_SECONDS = 2

const looks = (kind: string): Use[] => [
  { args: `get ${kind}` },
  { args: `get ${kind} --watch-only --request-timeout=${WATCH_SECONDS}s`, watches: true },
]

const endpoint = (description: string) => `
apiVersion: davit.dev/v1alpha1
kind: WebhookEndpoint
metadata: { name: by-hand }
spec: { url: "RECEIVER/by-hand", eventTypes: [environment.started], description: ${description} }
`

const event = (name: string) => `
apiVersion: davit.dev/v1alpha1
kind: WebhookEvent
metadata: { name: ${name} }
spec: { type: environment.started, data: {} }
`

const credential = (label: string) => `
apiVersion: davit.dev/v1alpha1
kind: RegistryCredential
metadata: { name: by-hand }
spec: { type: ecr, label: ${label}, registry: 123456789012.dkr.ecr.eu-west-1.amazonaws.com }
`

const settings = (region: string) => `
apiVersion: davit.dev/v1alpha1
kind: SecretsSettings
metadata: { name: default }
spec: { region: ${region} }
`

const template = (tag: string) => `
apiVersion: davit.dev/v1alpha1
kind: BoxTemplate
metadata: { name: by-hand }
spec: { services: [{ name: db, kind: catalog, image: "postgres:${tag}" }] }
`

/** Creates, changes, replaces, reads and deletes it. */
const owns = (kind: string, name: string, manifest: (what: string) => string, values: string[]): Use[] => [
  { args: 'apply -f -', stdin: manifest(values[0] ?? '') },
  { args: 'apply -f -', stdin: manifest(values[1] ?? '') },
  { args: 'replace -f -', stdin: manifest(values[2] ?? '') },
  ...looks(kind),
  { args: `get ${kind}/${name}` },
  { args: `delete ${kind}/${name}` },
]

export const KUBECTL_USES: Readonly<Record<RoleName, readonly Use[]>> = {
  'davit-owner': [
    { args: 'apply -f -', stdin: endpoint('made') },
    { args: 'apply -f -', stdin: endpoint('changed') },
    { args: 'replace -f -', stdin: endpoint('replaced') },
    { args: 'wait wep/by-hand --for=condition=Ready --timeout=30s' },
    { args: 'annotate wep by-hand davit.dev/ping-requested-at=2026-01-31T12:00:00Z' },
    ...looks('webhookendpoints'),
    { args: 'get wep by-hand' },
    { args: 'create -f -', stdin: event('by-owner') },
    { args: 'get wev by-owner' },
    ...looks('webhookevents'),
    { args: 'delete wev by-owner' },
    ...looks('webhookdeliveries'),
    { args: 'get wdl/some --ignore-not-found' },
    { args: 'delete wep by-hand' },
    ...looks('eventtypes'),
    ...owns('registrycredentials', 'by-hand', credential, ['made', 'changed', 'replaced']),
    ...owns('secretssettings', 'default', settings, ['eu-west-1', 'eu-west-2', 'eu-west-3']),
    ...owns('boxtemplates', 'by-hand', template, ['15', '16', '17']),
  ],
  'davit-viewer': [
    ...[
      'webhookendpoints',
      'webhookdeliveries',
      'webhookevents',
      'registrycredentials',
      'secretssettings',
      'boxtemplates',
      'eventtypes',
    ].flatMap((kind) => [...looks(kind), { args: `get ${kind}/some --ignore-not-found` }]),
  ],
  'davit-publisher': [{ args: 'create -f -', stdin: event('by-publisher') }, { args: 'get eventtypes' }],
}

/** Runs all commands in the organization, with the account that is named after the role. */
export async function useKubectl(
  davit: Installation,
  role: RoleName,
  organization: string,
  receiverUrl: string,
): Promise<void> {
  const account = { namespace: organization, name: role.replace('davit-', '') }
  const kubeconfig = await davit.makeKubeconfig(account)
  const cache = join(davit.folder, 'kubectl-cache')
  const always = ['--kubeconfig', kubeconfig, '--cache-dir', cache, '--namespace', organization]
  for (const { args, stdin = '', watches } of KUBECTL_USES[role]) {
    const given = stdin.replace('RECEIVER', receiverUrl)
    try {
      await runKubectl(davit.controlPlane.binaries.kubectl, [...always, ...args.split(' ')], given)
    } catch (error) {
      if (!watches || !(error instanceof KubectlFailed)) throw error
    }
  }
}
