/**
 * Objects that Davit works on are applied from Git: neither undoes the other's changes, and what the pages say about waiting is
 * true.
 */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { kubectl } from '../support/control-plane.ts'
import type { KubectlFailed } from '../support/control-plane-kubectl.ts'
import { DELIVERED_TYPE, manifestsOf } from '../support/gitops/manifests.ts'
import { BAKE_ENV, JobStandIn } from '../support/job-stand-in.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { ACCOUNT, isReady, SecretsBed } from '../support/secrets-bed.ts'
import { until } from '../support/until.ts'

type FieldsEntry = {
  manager: string
  operation: string
  subresource?: string
  fieldsV1: Record<string, object>
}
type Live = {
  kind: string
  metadata: { name: string; resourceVersion: string; generation: number; managedFields?: FieldsEntry[] }
  spec: object
}

const SERVER_SIDE = ['--server-side', '--field-manager=flux']
const DOCS = new URL('../../docs/', import.meta.url)

let receiver: Receiver
let bed: SecretsBed
let manifests: string

beforeAll(async () => {
  receiver = await startReceiver()
  bed = await SecretsBed.start('gitops', { env: BAKE_ENV })
  await applyAll()
}, 180_000)

afterAll(async () => {
  await bed?.stop()
  await receiver?.close()
})

function inNamespace(args: readonly string[], stdin?: string): Promise<string> {
  return kubectl(['-n', bed.organization, ...args], stdin)
}

/** As Git has it, until all of it is as wanted. */
async function applyAll(): Promise<void> {
  const { url } = receiver
  await apply(manifestsOf({ url }))
  const { status } = await bed.settingsWhen(({ status }) => status?.writerPolicy !== undefined)
  const { trustPolicy = '', writerPolicy = '' } = status ?? {}
  const { role } = bed.aws.account(ACCOUNT, { trustPolicy, writerPolicy })
  await apply(manifestsOf({ url, roleArn: role.arn }))
  await bed.settingsWhen(isReady)
  await bed.handOver('ghcr-handover', 'a-token')
  await bed.credentialWhen('ghcr', isReady)
  await until(
    async () => !(await bed.hasSecret('ghcr-handover')) || undefined,
    () => 'the Secret is still there',
  )
  const baking = new JobStandIn(bed.davit.api, bed.organization)
  await baking.succeed('shop')
  await baking.templateWhen('shop', ({ status }) => status?.bake?.state === 'succeeded')
  await bed.davit.endpointWhen('billing', ({ status }) => status?.signingSecrets !== undefined)
  await bed.davit.publish(DELIVERED_TYPE, {})
  await bed.davit.deliveriesWhen('billing', (all) => all.some(({ status }) => status?.state === 'succeeded'))
  await bed.davit.eventWhen('staging-started', ({ status }) => status?.state === 'dispatched')
}

async function apply(all: string[]): Promise<void> {
  manifests = all.join('\n---\n')
  await inNamespace(['apply', ...SERVER_SIDE, '-f', '-'], manifests)
}

async function live(): Promise<Live[]> {
  const printed = await inNamespace(['get', '-f', '-', '--show-managed-fields', '-o', 'json'], manifests)
  return (JSON.parse(printed) as { items: Live[] }).items
}

/** What `kubectl diff` would change. */
async function differenceOf(how: readonly string[], stdin: string): Promise<string> {
  return await inNamespace(['diff', ...how, '-f', '-'], stdin).catch((error: KubectlFailed) => {
    // Otherwise it could not tell.
    expect(error.exitCode).toBe(1)
    return error.stdout
  })
}

describe('what is applied from Git with server-side apply', () => {
  test('has one field manager of its spec, and Davit has the status and its finalizers alone', async () => {
    const seen = (await live()).map(({ kind, metadata }) => ({
      kind,
      fields: (metadata.managedFields ?? []).map(({ manager, subresource = '', fieldsV1 }) => {
        const names = Object.entries(fieldsV1).map(([name, fields]) =>
          name === 'f:metadata' ? Object.keys(fields).join() : name,
        )
        return [manager, subresource, names.sort().join()].join(' ').trimEnd()
      }),
    }))
    const byKind = Object.fromEntries(seen.map(({ kind, fields }) => [kind, fields.sort()]))
    expect(byKind).toEqual({
      EventType: ['davit status f:status', 'flux  f:spec'],
      WebhookEndpoint: ['davit status f:status', 'flux  f:annotations,f:labels,f:spec'],
      WebhookEvent: ['davit status f:status', 'flux  f:spec'],
      RegistryCredential: ['davit  f:finalizers', 'davit status f:status', 'flux  f:spec'],
      SecretsSettings: ['davit  f:finalizers', 'davit status f:status', 'flux  f:spec'],
      BoxTemplate: ['davit status f:status', 'flux  f:spec'],
    })
  })

  test('is applied again without a conflict and without a change', async () => {
    const before = await live()
    await apply(manifests.split('\n---\n'))
    const versions = (all: Live[]) => all.map(({ kind, metadata }) => [kind, metadata.resourceVersion])
    expect(versions(await live())).toEqual(versions(before))
  })

  test('shows no difference', async () => {
    expect(await differenceOf(SERVER_SIDE, manifests)).toBe('')
    const changed = manifests.replace('description: from Git', 'description: another')
    expect(await differenceOf(SERVER_SIDE, changed)).toMatch(/^\+.*description: another$/m)
  })

  test('is taken back by its manager whatever somebody changed, and Davit follows', async () => {
    const patch = ['patch', 'wep', 'billing', '--type=merge', '--field-manager=somebody']
    await inNamespace([...patch, '-p', '{"spec":{"description":"by hand"}}'])
    await inNamespace(['apply', ...SERVER_SIDE, '--force-conflicts', '-f', '-'], manifests)
    const seen = await bed.davit.endpointWhen(
      'billing',
      ({ metadata, status }) => status?.observedGeneration === metadata.generation,
    )
    expect(seen.spec.description).toBe('from Git')
  })
})

test('what is applied with kubectl apply shows no difference, and a second one changes nothing', async () => {
  const others = manifestsOf({ url: receiver.url, names: '-client' })
    .filter((manifest) => !/kind: (SecretsSettings|RegistryCredential)/.test(manifest))
    .join('\n---\n')
  await inNamespace(['apply', '-f', '-'], others)
  await bed.davit.endpointWhen('billing-client', ({ status }) => status?.signingSecrets !== undefined)
  await bed.davit.eventWhen('staging-started-client', ({ status }) => status?.state !== undefined)
  expect(await differenceOf([], others)).toBe('')
  const again = await inNamespace(['apply', '-f', '-'], others)
  expect(again.trimEnd().split('\n')).toEqual(Array(4).fill(expect.stringMatching(/ unchanged$/)))
})

describe('the waits of the pages', () => {
  // Those of guides wait for what their other commands have made, and run with them.
  const lines = globSync(['reference/*.md', 'guides/gitops.md'], { cwd: fileURLToPath(DOCS) }).flatMap(
    (name) => readFileSync(new URL(name, DOCS), 'utf8').match(/^kubectl -n acme wait .*$/gm) ?? [],
  )

  test('are there, for every kind that can be waited for', () => {
    const names = lines.map((line) => /wait ([a-z]+)\//.exec(line)?.[1])
    for (const kind of ['wep', 'wev', 'wdl', 'rcr', 'secretssettings', 'btp']) expect(names).toContain(kind)
  })

  test.each([...new Set(lines)])('work: %s', async (line) => {
    const [delivery] = await bed.davit.deliveries('billing')
    const words = line
      .replace('$name', delivery?.metadata.name ?? '')
      .replaceAll("'", '')
      .split(' ')
      .slice(3)
    const said = await inNamespace(['--request-timeout=20s', ...words])
    // The awaited deletion is complete.
    if (!line.includes('--for=delete')) expect(said).toContain('condition met')
  })
})
