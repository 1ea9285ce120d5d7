/** What fails before there is a Job (settled, "Credentials, settings, bakes"), on the real API server. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { registryCredentials } from '../../src/apis/registry-credential.ts'
import {
  API,
  code,
  conditionsOf,
  DB,
  ECR,
  ROLE_OF_BOX,
  startBakingDavit,
  state,
} from '../support/baking-davit.ts'
import { JobStandIn } from '../support/job-stand-in.ts'
import { reasonOf, type SecretsBed } from '../support/secrets-bed.ts'

let secrets: SecretsBed
let bed: JobStandIn

beforeAll(async () => {
  ;({ secrets, bed } = await startBakingDavit('box-problems'))
})

afterAll(async () => {
  await secrets?.stop()
})

const clock = () => secrets.davit.clock

describe('without a Job fails', () => {
  const rows: [
    given: string,
    spec: Record<string, unknown>,
    wanted: string,
    words: string[],
    waits: boolean,
  ][] = [
    [
      'an unknown credential',
      { services: [{ ...API, registryCredentialId: 'rc_none' }], ...ROLE_OF_BOX },
      'credential_unknown',
      ['rc_none'],
      true,
    ],
    [
      'a host that does not match',
      { services: [{ ...API, image: 'ghcr.io/acme/api:1' }], ...ROLE_OF_BOX },
      'host_mismatch',
      [ECR, 'ghcr.io'],
      false,
    ],
    [
      'a region of ECR that does not match',
      { services: [{ ...API, image: `${ECR.replace('eu-west-1', 'us-east-1')}/api` }], ...ROLE_OF_BOX },
      'ecr_region_mismatch',
      ['eu-west-1', 'us-east-1'],
      false,
    ],
    [
      'an account of ECR that does not match',
      { services: [{ ...API, image: `${ECR.replace('1234', '9999')}/api` }], ...ROLE_OF_BOX },
      'ecr_account_mismatch',
      ['123456789012', '999956789012'],
      false,
    ],
    [
      'a role that is not there',
      { services: [API], instanceRole: { serviceAccountName: 'nobody' } },
      'service_account_missing',
      ['nobody'],
      true,
    ],
    [
      'a claim that is not there',
      { services: [DB], output: { persistentVolumeClaim: 'nowhere' } },
      'output_missing',
      ['nowhere'],
      true,
    ],
  ]

  test.for(rows)('%s', async ([, spec, wanted, words, waits]) => {
    const name = wanted.replaceAll('_', '-')
    await bed.make(name, spec)
    const template = await bed.templateWhen(name, code(wanted))
    const { failure, job, attempts } = template.status?.bake ?? {}
    expect(failure).toMatchObject({ step: 'check', fix: expect.stringMatching(/\w/) })
    for (const word of words) expect(failure?.message).toContain(word)
    expect({ job, attempts }).toEqual({ job: undefined, attempts: 0 })
    expect(conditionsOf(template).Stalled).toMatch(waits ? /^absent$/ : /^True/)
    expect(await bed.jobs(name)).toEqual([])
  })

  test('a credential that is not ready, until it is', async () => {
    await secrets.credential('late', { secretRef: { name: 'late-handover' } })
    await secrets.credentialWhen('late', (seen) => reasonOf(seen, 'Ready') === 'SecretMissing')
    const api = { ...API, image: 'ghcr.io/acme/api:1.4', registryCredentialId: 'rc_late' }
    await bed.make('not-ready', { services: [api], ...ROLE_OF_BOX })
    const template = await bed.templateWhen('not-ready', code('credential_not_ready'))
    expect(template.status?.bake?.failure?.message).toContain('SecretMissing')
    await secrets.handOver('late-handover', 'the-value')
    await bed.succeed('not-ready')
    await bed.templateWhen('not-ready', state('succeeded'))
  })

  test('what is there a little later begins by itself', async () => {
    await bed.claim('nowhere')
    clock().jump(61_000)
    await bed.succeed('output-missing')
    await bed.templateWhen('output-missing', state('succeeded'))
  })

  test('a credential that is deleted takes Ready from who uses it, and bakes nothing', async () => {
    await secrets.davit.api.delete(registryCredentials, { namespace: bed.organization, name: 'late' })
    const template = await bed.templateWhen(
      'not-ready',
      (seen) => conditionsOf(seen).Ready === 'False CredentialUnknown',
    )
    expect(conditionsOf(template)).toMatchObject({ Succeeded: 'True Baked' })
    expect(template.status?.bake?.state).toBe('succeeded')
    expect(await bed.jobs('not-ready')).toHaveLength(1)
  })
})

test('two organizations have templates, credentials and Jobs of their own', async () => {
  const otherOrganization = secrets.davit.otherOrganization
  if (!otherOrganization) throw new Error('no neighbour')
  const other = new JobStandIn(otherOrganization.api, otherOrganization.organization)
  await other.account('box')
  await other.make('shared', { services: [API], ...ROLE_OF_BOX })
  await bed.make('shared', { services: [API], ...ROLE_OF_BOX })
  // The credential is that of the first organization, and to the other one unknown.
  await other.templateWhen('shared', code('credential_unknown'))
  await bed.succeed('shared')
  await bed.templateWhen('shared', state('succeeded'))
  expect(await other.jobs('shared')).toEqual([])
})
