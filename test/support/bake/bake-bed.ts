/** The environment of a bake: a registry, the organization's account with its secrets, and the identity of a box. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PutParameterCommand, SSMClient } from '@aws-sdk/client-ssm'
import type { OrderedCredential } from '../../../src/apis/bake.ts'
import { createClock } from '../../../src/lib/time.ts'
import type { Account, Role } from '../../../test-support/aws/account.ts'
import { type AwsEmulator, startAwsEmulator } from '../../../test-support/aws/aws-emulator.ts'
import { ALLOW_ALL } from '../aws/bed.ts'
import { addBoxRole, type Cluster, makeCluster, subjectOf } from './web-identity.ts'

export const REGION = 'eu-west-1'
const ACCOUNT = '222222222222'
const PREFIX = '/davit/acme'
const SUBJECT = subjectOf('acme', 'box')

/** The permissions that a box's role needs. */
export const BOX_POLICY = {
  Version: '2012-10-17',
  Statement: [
    {
      Effect: 'Allow',
      Action: 'ssm:GetParameter',
      Resource: `arn:aws:ssm:*:${ACCOUNT}:parameter${PREFIX}/*`,
    },
    { Effect: 'Allow', Action: 'kms:Decrypt', Resource: '*' },
    { Effect: 'Allow', Action: 'ecr:GetAuthorizationToken', Resource: '*' },
  ],
}

export type BakeBed = {
  aws: AwsEmulator
  account: Account
  role: Role
  cluster: Cluster
  /** Stores a secret, or another version of it. */
  store(credential: string, secret: string): Promise<NonNullable<OrderedCredential['parameter']>>
  /** The identity of a box, and its trusted authorities. @param ca PEM of the registry's authority */
  environment(ca?: string): Record<string, string>
  stop(): Promise<void>
}

export async function startBakeBed(): Promise<BakeBed> {
  const folder = mkdtempSync(join(tmpdir(), 'davit-identity-'))
  const aws = await startAwsEmulator({ clock: createClock(), rates: {} })
  const account = aws.accounts.add(ACCOUNT)
  const cluster = makeCluster()
  const role = addBoxRole(account, cluster, { subject: SUBJECT, policy: BOX_POLICY })
  const owner = account.addUser('owner', { policies: { all: ALLOW_ALL } })
  const ssm = new SSMClient({
    endpoint: aws.url,
    region: REGION,
    credentials: account.addAccessKey(owner),
  })
  const tokenFile = join(folder, 'token')
  writeFileSync(tokenFile, cluster.token({ sub: SUBJECT }), { mode: 0o600 })
  const caFile = join(folder, 'ca.pem')
  return {
    aws,
    account,
    role,
    cluster,
    async store(credential, secret) {
      const name = `${PREFIX}/${credential}`
      const { Version = 0 } = await ssm.send(
        new PutParameterCommand({ Name: name, Value: secret, Type: 'SecureString', Overwrite: true }),
      )
      return { name, version: Version, region: REGION }
    },
    environment(ca) {
      if (ca !== undefined) writeFileSync(caFile, ca)
      return {
        AWS_ENDPOINT_URL: aws.url,
        AWS_REGION: REGION,
        AWS_ROLE_ARN: role.arn,
        AWS_WEB_IDENTITY_TOKEN_FILE: tokenFile,
        // Otherwise the SDK falls back to the machine's metadata if the token is rejected.
        AWS_EC2_METADATA_DISABLED: 'true',
        ...(ca === undefined ? {} : { DAVIT_EXTRA_CA_FILE: caFile }),
      }
    },
    async stop() {
      ssm.destroy()
      await aws.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
