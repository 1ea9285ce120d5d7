/**
 * Bakes as a whole (interface §2.1.3, §2.2, §3.3, §7): what an owner does with kubectl, the controller, the Job that it makes, run as a
 * process with the Job's own environment, volumes and identity, an account at AWS, and a real registry with a private authority.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeImage } from '../../playground/bakes/images.ts'
import type { BoxTemplate } from '../../src/apis/box-template.ts'
import { jobs } from '../../src/apis/core-kinds.ts'
import { leaksIn, leaksInFolder } from '../support/bake/canary.ts'
import { conditionsOf, state } from '../support/baking-davit.ts'
import { TestNode } from '../support/job-process.ts'
import { BAKE_ENV, JobStandIn } from '../support/job-stand-in.ts'
import { trustCluster } from '../support/kubelet/cluster-identity.ts'
import { startTestRegistry, type TestRegistry } from '../support/registry/test-registry.ts'
import { isReady, reasonOf, SecretsBed } from '../support/secrets-bed.ts'

const ACME_PASSWORD = 'acme-canary-Zk4q9'
const TOOLS_PASSWORD = 'tools-canary-Vw7x2'
const WRONG_PASSWORD = 'wrong-canary-Qj3m5'
const ALL = [ACME_PASSWORD, TOOLS_PASSWORD, WRONG_PASSWORD]

let secrets: SecretsBed
let bed: JobStandIn
let registry: TestRegistry
let node: TestNode
const logs: string[] = []

beforeAll(async () => {
  registry = await startTestRegistry({
    auth: 'bearer',
    accounts: {
      acme: { password: ACME_PASSWORD, pulls: ['acme/api'] },
      tools: { password: TOOLS_PASSWORD, pulls: ['tools/web'] },
    },
    open: ['library/postgres'],
  })
  for (const repository of ['acme/api', 'tools/web', 'library/postgres'])
    await registry.push(repository, '1', makeImage({ layers: ['base', repository] }))
  const env = {
    ...BAKE_ENV,
    DAVIT_BAKE_REALMS: '',
    DAVIT_BAKE_CA_CONFIG_MAP: 'davit-bake-ca/authorities.pem',
  }
  secrets = await SecretsBed.start('box-whole', { env })
  bed = new JobStandIn(secrets.davit.api, secrets.organization)
  await bed.configMap('davit-bake-ca', { 'authorities.pem': registry.ca })
  await setUpBox()
  await login('acme', ACME_PASSWORD)
  await login('tools', TOOLS_PASSWORD)
  node = new TestNode(bed)
}, 120_000)

afterAll(async () => {
  node?.remove()
  await secrets?.stop()
  await registry?.stop()
})

/** The role of the box, with the policy from the status of the settings, for one ServiceAccount of the cluster. */
async function setUpBox(): Promise<void> {
  const { account } = await secrets.connect()
  const issuer = await trustCluster(account)
  const { status } = await secrets.settingsWhen((settings) => settings.status?.readerPolicy !== undefined)
  const subject = `system:serviceaccount:${secrets.organization}:box`
  const role = account.addRole('box', {
    trust: {
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Principal: { Federated: account.iamArn(`oidc-provider/${issuer}`) },
          Action: 'sts:AssumeRoleWithWebIdentity',
          Condition: { StringEquals: { [`${issuer}:sub`]: subject } },
        },
      ],
    },
    policies: { reader: JSON.parse(status?.readerPolicy ?? '') },
  })
  await bed.account('box', { 'eks.amazonaws.com/role-arn': role.arn })
  await bed.claim('boxes')
}

async function login(name: string, password: string): Promise<void> {
  await secrets.handOver(`${name}-handover`, password)
  const secretRef = { name: `${name}-handover` }
  await secrets.credential(name, { registry: registry.host, username: name, secretRef })
  await secrets.credentialWhen(name, isReady)
}

const custom = (name: string, repository: string, id: string) => ({
  name,
  kind: 'custom',
  image: `${registry.host}/${repository}:1`,
  registryCredentialId: id,
})
const box = () => ({
  services: [
    custom('api', 'acme/api', 'rc_acme'),
    custom('web', 'tools/web', 'rc_tools'),
    { name: 'db', kind: 'catalog', image: `${registry.host}/library/postgres:1` },
  ],
  instanceRole: { serviceAccountName: 'box' },
  output: { persistentVolumeClaim: 'boxes' },
  platform: 'linux/amd64',
})

async function run(name: string): Promise<void> {
  const { log } = await node.run(name)
  logs.push(log)
}

async function ended(name: string, wanted: 'succeeded' | 'failed', number: number): Promise<BoxTemplate> {
  return await bed
    .templateWhen(name, (template) => state(wanted)(template) && template.status?.bake?.number === number)
    .catch((cause: unknown) => {
      throw new Error(`log of its pod: ${logs.at(-1)}`, { cause })
    })
}

describe('a box of three services, with two credentials for one host', () => {
  test('is baked with the right one for each, read with its own role', async () => {
    await bed.make('shop', box())
    await run('shop')
    const { status } = await ended('shop', 'succeeded', 1)
    const why = (id: string, other: string) =>
      `The service references ${id}, which is for ${registry.host}, the host of the service's image. Other services use ${other} for that host; Davit never uses the credential of one service for another.`
    const of = (id: string, other: string) => ({
      id,
      parameterVersion: 1,
      generation: 1,
      why: why(id, other),
    })
    const image = (repository: string) => `${registry.host}/${repository}:1`
    const digest = expect.stringMatching(/^sha256:/)
    expect(status?.bake?.services).toEqual([
      { name: 'api', image: image('acme/api'), digest, credential: of('rc_acme', 'rc_tools') },
      { name: 'web', image: image('tools/web'), digest, credential: of('rc_tools', 'rc_acme') },
      { name: 'db', image: image('library/postgres'), digest },
    ])
    const index = JSON.parse(readFileSync(join(node.volumeOf('boxes'), 'shop', 'index.json'), 'utf8'))
    expect(index.manifests).toHaveLength(3)
    const reads = secrets.aws.emulator.trail.entries({ operation: 'GetParameter' })
    expect(reads.filter(({ principal }) => principal?.includes(':assumed-role/box/'))).toHaveLength(2)
  })

  test('has told its credentials', async () => {
    for (const [name, repository] of [
      ['acme', 'acme/api'],
      ['tools', 'tools/web'],
    ] as const) {
      const credential = await secrets.credentialWhen(name, (seen) => reasonOf(seen, 'Verified') === 'Pulled')
      expect(credential.status?.verified).toMatchObject({
        repository: `${registry.host}/${repository}`,
        parameterVersion: 1,
      })
    }
  })

  test('with a wrong password fails in the words of the tool, and what was baked before stays', async () => {
    await secrets.handOver('tools-handover', WRONG_PASSWORD)
    await secrets.credentialWhen('tools', ({ status }) => status?.parameter?.version === 2)
    const request = { 'davit.dev/rebake-requested-at': secrets.davit.time() }
    await bed.change('shop', { metadata: { annotations: request } })
    await run('shop')
    const template = await ended('shop', 'failed', 2)
    expect(template.status?.bake?.failure).toMatchObject({
      service: 'web',
      code: 'wrong_credentials',
      message: expect.stringMatching(/unauthorized|invalid username/),
      fix: expect.stringContaining('Provide a new secret for the credential'),
    })
    expect(conditionsOf(template)).toMatchObject({ Stalled: 'True WrongCredentials' })
    await secrets.credentialWhen('tools', (seen) => reasonOf(seen, 'Verified') === 'WrongCredentials')
    expect(existsSync(join(node.volumeOf('boxes'), 'shop', 'index.json'))).toBe(true)
    // The failed bake leaves nothing next to the previous one.
    expect(readdirSync(join(node.volumeOf('boxes'), '.davit', 'shop'))).toHaveLength(1)
  })

  test('is baked again by itself when the credential has a new secret', async () => {
    await secrets.handOver('tools-handover', TOOLS_PASSWORD)
    await run('shop')
    const { status } = await ended('shop', 'succeeded', 3)
    expect(status?.bake?.services?.[1]?.credential).toMatchObject({ id: 'rc_tools', parameterVersion: 3 })
    await secrets.credentialWhen('tools', (seen) => reasonOf(seen, 'Verified') === 'Pulled')
  })
})

test('a credential that may not pull an image of its host fails the bake, and is told so', async () => {
  const other = custom('web', 'tools/web', 'rc_acme')
  await bed.make('crossed', { ...box(), services: [other] })
  await run('crossed')
  const { status } = await ended('crossed', 'failed', 1)
  expect(['no_pull_permission', 'not_found_or_private']).toContain(status?.bake?.failure?.code)
  expect(status?.bake?.failure?.message).not.toBe('')
  expect(existsSync(join(node.volumeOf('boxes'), 'crossed'))).toBe(false)
})

test('no password is in an object, an Event, a log or a file', async () => {
  const { davit } = secrets
  const templates = await Promise.all(['shop', 'crossed'].map((name) => bed.templateWhen(name, () => true)))
  const held = await davit.api.list(jobs, { namespace: bed.organization })
  const told = JSON.stringify([templates, held.items, davit.events, davit.logLines, logs])
  for (const password of ALL) {
    for (const user of ['acme', 'tools']) {
      expect(leaksIn(told, password, user)).toEqual([])
      expect(leaksInFolder(node.folder, password, user)).toEqual([])
    }
  }
})
