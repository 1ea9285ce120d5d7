/**
 * Two REST servers with an AWS emulator: an organization that saves secrets over REST, with clients that validate each answer
 * against the document.
 */

import {
  type RegistryCredential,
  registryCredential,
  registryCredentials,
} from '../../src/apis/registry-credential.ts'
import { awsScopeOf } from '../../src/credentials/aws/names.ts'
import { policyText, trustPolicy, writerPolicy } from '../../src/credentials/aws/policies.ts'
import type { Account, Role } from '../../test-support/aws/account.ts'
import { REGION, TestAws } from './aws/organization-account.ts'
import { startDavit, type TestDavit } from './davit.ts'
import { type HttpServer, startHttpServer } from './http-server.ts'
import { answered, openRestClient, type RestClient } from './rest-client.ts'
import { makeOwnerKey } from './rest-server.ts'

export const CREDENTIALS = '/organizations/{orgId}/registry-credentials'
export const CREDENTIAL = '/organizations/{orgId}/registry-credentials/{credentialId}'
export const SETTINGS = '/organizations/{orgId}/secrets-settings'
export const ACCOUNT = '222222222222'

export class RestSecrets {
  readonly aws: TestAws
  readonly davit: TestDavit
  readonly servers: readonly [HttpServer, HttpServer]
  /** Clients of the organization's owner, one for each REST server. */
  readonly clients: readonly [RestClient, RestClient]
  readonly key: string

  private constructor(
    aws: TestAws,
    davit: TestDavit,
    rest: {
      key: string
      servers: readonly [HttpServer, HttpServer]
      clients: readonly [RestClient, RestClient]
    },
  ) {
    this.aws = aws
    this.davit = davit
    this.servers = rest.servers
    this.clients = rest.clients
    this.key = rest.key
  }

  static async start(topic: string): Promise<RestSecrets> {
    const aws = await TestAws.start()
    const davit = await startDavit(topic)
    const key = await makeOwnerKey(davit)
    const [one, other] = [await startHttpServer(davit), await startHttpServer(davit)]
    const clients = [await openRestClient(one, key), await openRestClient(other, key)] as const
    return new RestSecrets(aws, davit, { key, servers: [one, other], clients })
  }

  get orgId(): string {
    return this.davit.organization
  }

  /** Connects the account like an owner: the external id, a role with the policies for it, and the settings. */
  async connect(id = ACCOUNT): Promise<{ account: Account; role: Role }> {
    const params = { path: { orgId: this.orgId } }
    const before = answered(await this.clients[0].GET(SETTINGS, { params }))
    const made = this.aws.account(id, {
      trustPolicy: policyText(trustPolicy({ principal: this.aws.operator, externalId: before.externalId })),
      writerPolicy: policyText(
        writerPolicy({ awsScope: awsScopeOf(REGION, id), prefix: '/davit', organization: this.orgId }),
      ),
    })
    await this.put({ region: REGION, roleArn: made.role.arn })
    return made
  }

  /** Starts another REST server process; `stop` it, or `kill` its `server`. */
  async newServer() {
    const http = await startHttpServer(this.davit)
    const client = await openRestClient(http, this.key)
    return {
      ...http,
      create: (idempotencyKey?: string) => {
        const header = idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey }
        const params = { path: { orgId: this.orgId }, header }
        return client.POST(CREDENTIALS, { params, body: TOKEN })
      },
    }
  }

  async put(body: { region: string; roleArn?: string }) {
    const params = { path: { orgId: this.orgId } }
    return answered(await this.clients[0].PUT(SETTINGS, { params, body }))
  }

  async create(more: Partial<Token> = {}, how: { at?: 0 | 1; idempotencyKey?: string } = {}) {
    const { at = 0, idempotencyKey } = how
    const header = idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey }
    const params = { path: { orgId: this.orgId }, header }
    return await this.clients[at].POST(CREDENTIALS, { params, body: { ...TOKEN, ...more } })
  }

  async change(credentialId: string, body: Change, how: { at?: 0 | 1; idempotencyKey?: string } = {}) {
    const { at = 0, idempotencyKey } = how
    const header = idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey }
    const params = { path: { orgId: this.orgId, credentialId }, header }
    return await this.clients[at].PATCH(CREDENTIAL, { params, body })
  }

  async get(credentialId: string, at: 0 | 1 = 0) {
    return await this.clients[at].GET(CREDENTIAL, { params: { path: { orgId: this.orgId, credentialId } } })
  }

  /** The resource as kubectl shows it. */
  async stored(credentialId: string): Promise<RegistryCredential> {
    const ref = { namespace: this.orgId, name: credentialId.slice('rc_'.length) }
    return registryCredential.parse(await this.davit.api.get(registryCredentials, ref))
  }

  async allStored(): Promise<RegistryCredential[]> {
    const { items } = await this.davit.api.list(registryCredentials, { namespace: this.orgId })
    return items.map((raw) => registryCredential.parse(raw))
  }

  async stop(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.stop()))
    await this.davit.stop()
    await this.aws.stop()
  }
}

type Token = { type: 'token' | 'ecr'; label: string; registry: string; username?: string; secret?: string }
type Change = { label?: string; username?: string; secret?: string }

export const TOKEN = {
  type: 'token',
  label: 'GitHub',
  registry: 'ghcr.io',
  username: 'bot',
  secret: 's3cr3t-of-the-bot',
} as const satisfies Token
