/** docs/guides/connect-aws.md: what it says to paste is what Davit says in the status, and does what it should at AWS. */

import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse as parseYaml, type ScalarTag } from 'yaml'
import { parseConfig } from '../src/cmd/config.ts'
import { createOrganizationAccounts } from '../src/cmd/dependencies.ts'
import { createMetrics } from '../src/cmd/metrics.ts'
import type { CloudAccounts } from '../src/credentials/aws/cloud-accounts.ts'
import { awsScopeOf } from '../src/credentials/aws/names.ts'
import { readerPolicy, trustPolicy, writerPolicy } from '../src/credentials/aws/policies.ts'
import type { CloudAccess } from '../src/credentials/cloud.ts'
import { SecretText } from '../src/lib/redact.ts'
import { createClock, createRandom } from '../src/lib/time.ts'
import { TestAws } from './support/aws/organization-account.ts'

const PAGE = readFileSync(new URL('../docs/guides/connect-aws.md', import.meta.url), 'utf8')
const ACCOUNT = '123456789012'
const PRINCIPAL = 'arn:aws:iam::111111111111:user/davit'
const KEY = `arn:aws:kms:eu-west-1:${ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab`

type Values = Record<'region' | 'partition' | 'suffix' | 'key' | 'externalId' | 'repositories', string>
type Policies = { trust: unknown; writer: unknown; reader: unknown }

const EUROPE: Values = {
  region: 'eu-west-1',
  partition: 'aws',
  suffix: 'amazonaws.com',
  key: '',
  externalId: 'davit-of-acme',
  repositories: '',
}
const CHINA: Values = { ...EUROPE, region: 'cn-north-1', partition: 'aws-cn', suffix: 'amazonaws.com.cn' }

const WAYS = { CloudFormation: fromCloudFormation, Terraform: fromTerraform }
const CASES = Object.entries(WAYS).flatMap(([way, policies]) => [
  { way, policies, what: 'with the key of the account', values: EUROPE },
  { way, policies, what: 'with a key of one’s own', values: { ...EUROPE, key: KEY } },
  { way, policies, what: 'in China', values: CHINA },
  { way, policies, what: 'with a prefix', values: { ...EUROPE, repositories: 'boxes/' } },
  { way, policies, what: 'with the start of a name', values: { ...CHINA, repositories: 'acme-' } },
])

type Trust = {
  Statement: { Action: string | string[]; Condition: { StringEquals: Record<string, unknown> } }[]
}

test('the role of Davit trusts the ServiceAccounts of both roles, and no others', () => {
  const accounts = ['davit-controller', 'davit-api']
  const [irsa, podIdentity] = jsonBelow("## Davit's own role") as [Trust, Trust]
  const conditionsOf = ({ Statement }: Trust) => Object.entries(Statement[0]?.Condition.StringEquals ?? {})
  const ofIssuer = (claim: string) => conditionsOf(irsa).find(([key]) => key.endsWith(`:${claim}`))?.[1]
  expect(ofIssuer('aud')).toBe('sts.amazonaws.com')
  expect(ofIssuer('sub')).toEqual(accounts.map((name) => `system:serviceaccount:davit-system:${name}`))
  expect(podIdentity.Statement[0]?.Action).toEqual(['sts:AssumeRole', 'sts:TagSession'])
  expect(conditionsOf(podIdentity).map(([, value]) => value)).toEqual(['davit-system', accounts])
  for (const name of accounts) {
    const role = readFileSync(new URL(`../config/rbac/${name}.yaml`, import.meta.url), 'utf8')
    expect(role).toContain(`kind: ServiceAccount\nmetadata:\n  name: ${name}\n`)
  }
})

/** Of the section with this heading. */
function jsonBelow(heading: string): unknown[] {
  const section = PAGE.split(/^(?=## )/m).find((each) => each.startsWith(heading)) ?? ''
  return [...section.matchAll(/```json\n(.*?)```/gs)].map(([, json = '']) => JSON.parse(json))
}

test.each(CASES)('$way $what says the same as the status', ({ policies, values }) => {
  const { region, key, externalId } = values
  const repositoryPrefix = values.repositories === '' ? undefined : values.repositories
  const kmsKeyId = key === '' ? undefined : key
  const awsScope = awsScopeOf(region, ACCOUNT)
  const scope = { awsScope, prefix: '/davit', organization: 'acme', kmsKeyId, repositoryPrefix }
  expect(withoutRepeats(policies(values))).toEqual({
    trust: trustPolicy({ principal: PRINCIPAL, externalId }),
    writer: writerPolicy(scope),
    reader: readerPolicy(scope),
  })
})

describe.each(Object.entries(WAYS))('an account made with %s', (_way, policies) => {
  let aws: TestAws
  let cloud: CloudAccounts
  let access: CloudAccess

  beforeAll(async () => {
    aws = await TestAws.start()
    const account = aws.emulator.accounts.add(ACCOUNT)
    const made = policies(EUROPE)
    const role = account.addRole('davit-secrets', {
      trust: made.trust as Record<string, unknown>,
      policies: { 'write-secrets': made.writer as Record<string, unknown> },
    })
    const metrics = createMetrics({ version: 'test' })
    const world = { clock: createClock(), random: createRandom(), metrics }
    cloud = createOrganizationAccounts({ config: parseConfig({}).cloud, version: 'test', ...world })
    access = {
      organization: 'acme',
      organizationUid: 'uid-of-acme',
      roleArn: role.arn,
      region: EUROPE.region,
      externalId: EUROPE.externalId,
    }
  })

  afterAll(async () => {
    cloud?.close()
    await aws?.stop()
  })

  test('takes, lists and loses secrets of the organization', async () => {
    const name = '/davit/acme/rc_ghcr'
    const value = new SecretText('of-no-matter')
    const made = await cloud.create(access, { name, value, description: 'd', tags: { owner: 'davit' } })
    expect(made).toEqual({ version: 1 })
    expect(await cloud.replace(access, name, value)).toEqual({ version: 2 })
    expect(await cloud.tagsOf(access, name)).toMatchObject({ owner: 'davit' })
    const listed = await cloud.list(access, { prefix: '/davit/acme', limit: 10 })
    expect(listed.map((parameter) => parameter.name)).toEqual([name])
    expect(await cloud.remove(access, name)).toBe('deleted')
  })

  test('refuses to be read, to be entered with another external id, and names of another organization', async () => {
    const name = '/davit/acme/rc__probe'
    const value = new SecretText('of-no-matter')
    await cloud.create(access, { name, value, description: 'd', tags: {} })
    expect(await cloud.readable(access, name)).toEqual({ operations: [], code: 'AccessDeniedException' })
    expect(await cloud.refusesOtherId(access)).toMatchObject({ refused: true })
    const foreign = { name: '/davit/umbrella/rc_ghcr', value, description: 'd', tags: {} }
    await expect(cloud.create(access, foreign)).rejects.toMatchObject({ remedy: 'permissions' })
    expect(aws.emulator.defects).toEqual([])
  })
})

function block(language: string): string {
  const [, text] = new RegExp(`\`\`\`${language}\n(.*?)\n\`\`\``, 's').exec(PAGE) ?? []
  if (text === undefined) throw new Error(`the page has no block of ${language}`)
  return text
}

type Template = { Resources: Record<string, { Properties: Record<string, unknown> }> }

function fromCloudFormation(values: Values): Policies {
  const parameters: Record<string, string> = {
    Organization: 'acme',
    ExternalId: values.externalId,
    DavitPrincipal: PRINCIPAL,
    Prefix: '/davit',
    KmsKeyArn: values.key,
    RepositoryPrefix: values.repositories,
    'AWS::Partition': values.partition,
    'AWS::Region': values.region,
    'AWS::AccountId': ACCOUNT,
    'AWS::URLSuffix': values.suffix,
  }
  const named = (name: string) => {
    const value = parameters[name]
    if (value === undefined) throw new Error(`the template names ${name}, which there is not`)
    return value
  }
  const customTags = [
    scalar('!Ref', (text) => (text === 'ReaderPolicy' ? text : named(text))),
    scalar('!Sub', (text) => text.replace(/\$\{([^}]+)\}/g, (_, name: string) => named(name))),
    scalar('!GetAtt', (text) => text),
    list('!Equals', ([a, b]) => a === b),
    list('!Not', ([value]) => !value),
    list('!If', ([, yes, no]) => (values.key === '' ? no : yes)),
  ]
  const { Resources } = parseYaml(block('yaml'), { customTags }) as Template
  const { AssumeRolePolicyDocument, Policies } = Resources.Role?.Properties ?? {}
  const [writer] = Policies as { PolicyDocument: unknown }[]
  return {
    trust: AssumeRolePolicyDocument,
    writer: writer?.PolicyDocument,
    reader: Resources.ReaderPolicy?.Properties.PolicyDocument,
  }
}

function scalar(tag: string, resolve: (text: string) => string): ScalarTag {
  return { tag, resolve }
}

function list(tag: string, act: (items: unknown[]) => unknown) {
  return {
    tag,
    collection: 'seq' as const,
    resolve: (items: { toJSON(): unknown[] }) => act(items.toJSON()),
  }
}

function fromTerraform(values: Values): Policies {
  const text = block('hcl')
  const locals: Record<string, string> = {
    'var.organization': 'acme',
    'var.external_id': values.externalId,
    'var.davit_principal': PRINCIPAL,
    'var.prefix': '/davit',
    'var.repository_prefix': values.repositories,
    'local.partition': values.partition,
    'local.region': values.region,
    'local.account': ACCOUNT,
    'local.suffix': values.suffix,
  }
  const filled = (template: string) =>
    template.replace(/\$\{([^}]+)\}/g, (_, name: string) => {
      const value = locals[name]
      if (value === undefined) throw new Error(`the page names ${name}, which there is not`)
      return value
    })
  for (const name of ['secrets', 'any_key']) {
    const [, template = ''] = new RegExp(`^ +${name} += "(.*)"$`, 'm').exec(text) ?? []
    locals[`local.${name}`] = filled(template)
  }
  locals['local.key'] = values.key === '' ? (locals['local.any_key'] ?? '') : values.key
  const documents = [...text.matchAll(/<<-JSON\n(.*?)\n +JSON/gs)].map(([, json = '']) =>
    JSON.parse(filled(json)),
  )
  const [trust, writer, reader] = documents
  return { trust, writer, reader }
}

/** Outside of China both names of a service are the same one. */
function withoutRepeats(value: unknown): unknown {
  if (Array.isArray(value)) return [...new Set(value.map(withoutRepeats))]
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withoutRepeats(inner)]))
}
