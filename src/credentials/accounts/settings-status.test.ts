import { describe, expect, test } from 'vitest'
import { type SecretsSettingsStatus, secretsSettings } from '../../apis/secrets-settings.ts'
import { type SettingsFacts, settingsStatus } from './plan.ts'

const ROLE = 'arn:aws:iam::123456789012:role/davit'
const PRINCIPAL = 'arn:aws:iam::999999999999:role/operator'
const KEY = '1234abcd-12ab-34cd-56ef-1234567890ab'
const NOW = Date.parse('2026-01-31T12:00:00Z')
const FINDING = { type: 'Ready', status: 'True', reason: 'Connected', message: 'It is connected.' } as const
const VERDICT = { findings: [FINDING], ready: true, connected: true }

type Given = { spec?: object; status?: SecretsSettingsStatus; facts?: Partial<SettingsFacts> }

function statusOf({ spec = { roleArn: ROLE }, status, facts = {} }: Given = {}): SecretsSettingsStatus {
  const settings = secretsSettings.parse({
    apiVersion: 'davit.dev/v1alpha1',
    kind: 'SecretsSettings',
    metadata: { name: 'default', namespace: 'acme', uid: 'u', resourceVersion: '1', generation: 3 },
    spec: { region: 'eu-west-1', ...spec },
    ...(status ? { status } : {}),
  })
  const found = { assessment: VERDICT, externalId: 'x-1', principal: PRINCIPAL, tried: true, now: NOW }
  return settingsStatus({ settings, prefix: '/davit', ...found, ...facts })
}

describe('the status of an account', () => {
  test('says what was tried, and when', () => {
    expect(statusOf()).toMatchObject({
      externalId: 'x-1',
      account: '123456789012',
      parameterPrefix: '/davit/acme',
      checkedAt: '2026-01-31T12:00:00.000Z',
      observedGeneration: 3,
      conditions: [{ ...FINDING, observedGeneration: 3, lastTransitionTime: '2026-01-31T12:00:00.000Z' }],
    })
  })

  test('keeps when it was tried last where this pass did not try', () => {
    const checkedAt = '2026-01-30T12:00:00.000Z'
    const facts = { tried: false }
    expect(statusOf({ status: { ...statusOf(), checkedAt }, facts }).checkedAt).toBe(checkedAt)
    expect(statusOf({ facts })).not.toHaveProperty('checkedAt')
  })

  test('records what was connected, and keeps it while another role does not work', () => {
    const kmsKeyId = 'alias/davit'
    expect(statusOf().connected).toEqual({ roleArn: ROLE, region: 'eu-west-1' })
    const before = statusOf({ spec: { roleArn: ROLE, kmsKeyId } })
    expect(before.connected).toEqual({ roleArn: ROLE, region: 'eu-west-1', kmsKeyId })
    const facts = { assessment: { ...VERDICT, connected: false } }
    const spec = { roleArn: 'arn:aws:iam::123456789012:role/other' }
    expect(statusOf({ spec, status: before, facts }).connected).toEqual(before.connected)
    expect(statusOf({ spec, facts })).not.toHaveProperty('connected')
  })

  test('has no account before there is a role, and policies for any', () => {
    const facts = { assessment: { ...VERDICT, connected: true } }
    const status = statusOf({ spec: {}, facts })
    expect(status).not.toHaveProperty('account')
    expect(status).not.toHaveProperty('connected')
    expect(status.writerPolicy).toContain('arn:aws:ssm:eu-west-1:*:parameter/davit/acme/')
  })
})

describe('the policies of an account', () => {
  test('are for its own parameters, region and key', () => {
    const { writerPolicy, readerPolicy } = statusOf({ spec: { roleArn: ROLE, kmsKeyId: KEY } })
    for (const text of [writerPolicy, readerPolicy]) {
      expect(text).toContain('arn:aws:ssm:eu-west-1:123456789012:parameter/davit/acme/')
      expect(text).not.toContain('eu-west-1:*')
    }
    expect(writerPolicy).toContain(`arn:aws:kms:eu-west-1:123456789012:key/${KEY}`)
  })

  test('let boxes pull from repositories with the prefix, of its account', () => {
    const spec = { roleArn: ROLE, repositoryPrefix: 'boxes/' }
    expect(statusOf({ spec }).readerPolicy).toContain('"arn:aws:ecr:*:123456789012:repository/boxes/*"')
    expect(statusOf().readerPolicy).toContain('"arn:aws:ecr:*:123456789012:repository/*"')
  })

  test('let the operator in, with the external id', () => {
    const { trustPolicy } = statusOf()
    expect(trustPolicy).toContain(PRINCIPAL)
    expect(trustPolicy).toContain('x-1')
  })

  test('stay as they were while nobody knows the operator, unless the external id is another', () => {
    const status = statusOf()
    const facts = { principal: undefined }
    expect(statusOf({ status, facts }).trustPolicy).toBe(status.trustPolicy)
    expect(statusOf({ status, facts: { ...facts, externalId: 'x-2' } })).not.toHaveProperty('trustPolicy')
    expect(statusOf({ facts })).not.toHaveProperty('trustPolicy')
  })
})
