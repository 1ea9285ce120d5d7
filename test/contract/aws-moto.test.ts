/**
 * A second opinion on the AWS emulator: the same cases with moto. If the two differ, the documentation of AWS decides; each such
 * row must still differ, so that none outlives a fix of moto.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ContractTarget, runCase } from '../support/aws/contract.ts'
import { AWS_CONTRACT } from '../support/aws/contract-cases.ts'
import { startMoto } from '../support/aws/moto.ts'
import { NoPythonError } from '../support/python-venv.ts'

const DOCS = 'https://docs.aws.amazon.com'
const ASSUME_ROLE = `${DOCS}/STS/latest/APIReference/API_AssumeRole.html`
const PUT_PARAMETER = `${DOCS}/systems-manager/latest/APIReference/API_PutParameter.html`
const NAMES = `${DOCS}/systems-manager/latest/userguide/sysman-parameter-name-constraints.html`
const DESCRIBE = `${DOCS}/systems-manager/latest/APIReference/API_DescribeParameters.html`

/** What moto does instead, and the page that says otherwise. */
const DIFFERENCES = [
  {
    given: 'refuses a wrong external id',
    moto: 'any will do',
    page: `${DOCS}/IAM/latest/UserGuide/id_roles_common-scenarios_third-party.html`,
  },
  { given: 'refuses a role that is not there', moto: 'any can be assumed', page: ASSUME_ROLE },
  { given: 'refuses a session name with a space', moto: 'any name', page: ASSUME_ROLE },
  { given: 'refuses a session policy of more than 2,048 characters', moto: 'any length', page: ASSUME_ROLE },
  {
    given: 'holds a session to its session policy',
    moto: 'it is not read',
    page: `${DOCS}/IAM/latest/UserGuide/access_policies.html#policies_session`,
  },
  {
    given: 'refuses a signature by another secret',
    moto: 'none is checked',
    page: `${DOCS}/IAM/latest/UserGuide/reference_sigv-create-signed-request.html`,
  },
  { given: 'refuses a value in double braces', moto: 'it is stored', page: PUT_PARAMETER },
  {
    given: 'refuses a standard value over 4 KB',
    moto: 'any length',
    page: `${DOCS}/systems-manager/latest/userguide/parameter-store-advanced-parameters.html`,
  },
  { given: 'refuses a name with a space', moto: 'any character', page: NAMES },
  { given: 'refuses a name with other characters', moto: 'any character', page: NAMES },
  { given: 'refuses a path without its slash', moto: 'it is another name', page: PUT_PARAMETER },
  { given: 'refuses more than 15 levels', moto: 'any depth', page: NAMES },
  { given: 'refuses a name that is too long with its ARN', moto: 'any length', page: PUT_PARAMETER },
  { given: 'refuses a key that is not there', moto: 'keys are not looked up', page: PUT_PARAMETER },
  { given: 'refuses a key for plain text', moto: 'it is kept', page: PUT_PARAMETER },
  { given: 'lets plain text not become a secret', moto: 'the type changes', page: PUT_PARAMETER },
  {
    given: 'shows nothing of a secret to those who do not decrypt it',
    moto: 'kms:<key>:<the text itself>',
    page: `${DOCS}/kms/latest/developerguide/services-parameter-store.html`,
  },
  {
    given: 'lists what is below a path, page by page',
    moto: 'pages of ten, whatever is asked',
    page: DESCRIBE,
  },
  {
    given: 'says who has written it',
    moto: 'N/A',
    page: `${DOCS}/systems-manager/latest/APIReference/API_ParameterMetadata.html`,
  },
  { given: 'refuses pages of more than 50', moto: 'it is not read', page: DESCRIBE },
  { given: 'refuses a token that it has not given', moto: 'an internal error', page: DESCRIBE },
  {
    given: 'lets the password of a registry live for twelve hours',
    moto: 'it ended in 2015',
    page: `${DOCS}/AmazonECR/latest/APIReference/API_AuthorizationData.html`,
  },
] as const

/** Elsewhere a machine without Python or its packages leaves this out, and counts it as skipped. */
const NEEDS_PYTHON = process.env.CI !== undefined
/** The first time, packages are downloaded. */
const START_LIMIT_MS = 300_000

describe('moto', () => {
  let moto: Awaited<ReturnType<typeof startMoto>> | undefined
  let missing: string | undefined

  beforeAll(async () => {
    try {
      moto = await startMoto()
    } catch (error) {
      if (NEEDS_PYTHON || !(error instanceof NoPythonError)) throw error
      missing = error.message
      console.error(`moto is not asked: ${missing}`)
    }
  }, START_LIMIT_MS)
  afterAll(() => moto?.stop())

  const target = (url: string): ContractTarget => ({
    url,
    credentials: { accessKeyId: 'AKIAIOSFODNN7EXAMPLE', secretAccessKey: 'x'.repeat(40) },
    now: () => Date.now(),
  })

  for (const one of AWS_CONTRACT) {
    const difference = DIFFERENCES.find(({ given }) => given === one.name)
    it(difference ? `differs where AWS ${one.name} (${difference.moto})` : one.name, async ({ skip }) => {
      if (!moto) return skip(missing)
      const run = runCase(target(moto.url), one)
      await (difference ? expect(run).rejects.toThrow() : run)
    })
  }

  it('is not said to differ in anything else', () => {
    const names = AWS_CONTRACT.map(({ name }) => name)
    expect(DIFFERENCES.filter(({ given }) => !names.includes(given))).toEqual([])
  })
})
