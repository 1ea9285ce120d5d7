/**
 * AWS and a private registry emulated on this machine, where pods can reach them; accounts that trust the tokens of the cluster.
 */

import { connectKubernetes } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import type { Account } from '../../test-support/aws/account.ts'
import { forward } from '../node/forward.ts'
import { pushImages, startPrivateRegistry } from '../node/private-registry.ts'
import { connectOrganization } from '../support/aws/connect-organization.ts'
import { REGION, TestAws } from '../support/aws/organization-account.ts'
import { ACCOUNT } from '../support/box/box-bed.ts'
import { AUDIENCE, addPodRole, trustIssuer } from '../support/kubelet/pod-role.ts'
import type { TestRegistry } from '../support/registry/test-registry.ts'
import { DAVIT, ROLES } from './pods.ts'

const OPERATOR_ACCOUNT = '222222222222'

export type Cloud = {
  aws: TestAws
  /** Of the organization. */
  account: Account
  /** For AWS_ENDPOINT_URL in pods. */
  url: string
  /** Whom Davit's own pods become, with their own tokens. */
  operatorRole: string
  /** Whom boxes of the organization become. */
  boxRole: string
  registry: TestRegistry
  /** By repository. */
  digests: Readonly<Record<string, string>>
  /** As an owner does it, once Davit runs. */
  connect(): Promise<void>
  stop(): Promise<void>
}

type Where = {
  kubeconfig: string
  address: string
  organization: string
  kubectl: (args: readonly string[]) => Promise<string>
}

export async function startCloud({ kubeconfig, address, organization, kubectl }: Where): Promise<Cloud> {
  await using stack = new AsyncDisposableStack()
  const aws = await TestAws.start()
  stack.defer(() => aws.stop())
  const reached = await forward(address, aws.emulator.url)
  stack.defer(() => reached.stop())
  const registry = await startPrivateRegistry(address)
  stack.defer(() => registry.stop())
  const digests = await pushImages(registry)
  const operator = aws.emulator.accounts.add(OPERATOR_ACCOUNT)
  const issuer = await trustIssuer(operator, kubectl)
  const { arn: operatorRole } = operator.addRole('davit', {
    trust: trustOf(issuer),
    policies: { own: MAY_ASSUME },
  })
  const account = aws.emulator.accounts.add(ACCOUNT)
  await trustIssuer(account, kubectl)
  const { arn: boxRole } = addPodRole(account, { name: 'box', namespace: organization, issuer })
  const connect = async () => {
    const api = await connectKubernetes({
      kubeconfigPath: kubeconfig,
      clock: createClock(),
      random: createRandom(),
    })
    try {
      await connectOrganization({ api, organization, region: REGION, account, role: 'secrets' })
    } finally {
      await api.close()
    }
  }
  const parts = stack.move()
  const stop = () => parts.disposeAsync()
  return { aws, account, url: reached.url, operatorRole, boxRole, registry, digests, connect, stop }
}

/** As docs/guides/connect-aws.md and IAM have it for a role of pods. */
function trustOf(issuer: string) {
  const subjects = ROLES.map((role) => `system:serviceaccount:${DAVIT}:davit-${role}`)
  return {
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Principal: { Federated: `arn:aws:iam::${OPERATOR_ACCOUNT}:oidc-provider/${issuer}` },
        Action: 'sts:AssumeRoleWithWebIdentity',
        Condition: { StringEquals: { [`${issuer}:aud`]: AUDIENCE, [`${issuer}:sub`]: subjects } },
      },
    ],
  }
}

const MAY_ASSUME = {
  Version: '2012-10-17',
  Statement: [
    { Effect: 'Allow', Action: ['sts:AssumeRole', 'sts:TagSession'], Resource: 'arn:aws:iam::*:role/*' },
  ],
}
