import { z } from 'zod'
import { credential, credentialChange, credentialDraft, credentialId } from './credential-resource.ts'
import type { CredentialService } from './credentials.ts'
import type { ProblemCode } from './http/problems.ts'
import { MANAGE_CREDENTIALS, type Route, replayed, route } from './http/route.ts'
import { type Cursors, nextCursor, pageQuery } from './lists.ts'

/** The routes of registry credentials (interface §4.1). */

const TAG = 'Registry credentials'
const PATH = '/registry-credentials'
const ETAG = { ETag: 'ETag of the current credential, for use in If-Match.' }
/** Problems of a request that may store a secret. */
const STORING: readonly ProblemCode[] = [
  'secrets_settings_required',
  'cloud_account_not_ready',
  'cloud_unavailable',
  'idempotency_conflict',
  'unreadable',
]

const params = z.object({ credentialId })

export function credentialRoutes(credentials: CredentialService, cursors: Cursors): Route[] {
  return [
    createRoute(credentials),
    listRoute(credentials, cursors),
    getRoute(credentials),
    changeRoute(credentials),
    removeRoute(credentials),
  ]
}

function createRoute(credentials: CredentialService): Route {
  return route({
    id: 'createCredential',
    method: 'post',
    path: PATH,
    tag: TAG,
    summary: 'Create a registry credential',
    description:
      'Stores the secret of a `token` credential in the AWS account of the organization and nowhere else. An `ecr` credential does not have a secret and needs no account.',
    permission: MANAGE_CREDENTIALS,
    body: credentialDraft,
    success: {
      status: 201,
      description: 'The credential, without its secret.',
      body: credential,
      headers: { ...ETAG, Location: 'URL of the credential, relative to the URL of the request.' },
    },
    problems: ['too_many_credentials', ...STORING],
    idempotent: true,
    async handle({ organization, body, idempotencyKey }) {
      const created = await credentials.create(organization, body, { idempotencyKey })
      const { etag } = created
      return {
        body: created.credential,
        headers: {
          ...(etag === undefined ? {} : { etag }),
          location: `${PATH.slice(1)}/${created.credential.id}`,
          ...replayed(created.replayed).headers,
        },
      }
    },
  })
}

function listRoute(credentials: CredentialService, cursors: Cursors): Route {
  return route({
    id: 'listCredentials',
    method: 'get',
    path: PATH,
    tag: TAG,
    summary: 'List the registry credentials',
    description: 'Returns the registry credentials, sorted by name.',
    permission: MANAGE_CREDENTIALS,
    query: pageQuery,
    success: {
      status: 200,
      description: 'A page of credentials, without their secrets.',
      body: z.object({ registryCredentials: z.array(credential), cursor: nextCursor }),
    },
    problems: ['cursor_expired'],
    async handle({ organization, query }) {
      const list = ['registryCredentials', organization]
      return { body: await cursors.bodyOf(list, query, (page) => credentials.list(organization, page)) }
    },
  })
}

function getRoute(credentials: CredentialService): Route {
  return route({
    id: 'getCredential',
    method: 'get',
    path: `${PATH}/{credentialId}`,
    tag: TAG,
    summary: 'Read a registry credential',
    permission: MANAGE_CREDENTIALS,
    params,
    success: {
      status: 200,
      description: 'The credential, without its secret.',
      body: credential,
      headers: ETAG,
    },
    problems: ['unreadable'],
    async handle({ organization, params: { credentialId } }) {
      const found = await credentials.get({ organization, credentialId })
      return { body: found.credential, headers: { etag: found.etag } }
    },
  })
}

function changeRoute(credentials: CredentialService): Route {
  return route({
    id: 'changeCredential',
    method: 'patch',
    path: `${PATH}/{credentialId}`,
    tag: TAG,
    summary: 'Change a registry credential',
    description:
      'Changes only the fields in the request. A new secret is stored as a new version of the parameter in AWS, and is used by all bakes that start after the change. The secret and the other fields take effect together or not at all.',
    permission: MANAGE_CREDENTIALS,
    params,
    body: credentialChange,
    success: {
      status: 200,
      description: 'The credential after the change, without its secret.',
      body: credential,
      headers: ETAG,
    },
    problems: ['managed_elsewhere', 'precondition_failed', 'not_acknowledged', ...STORING],
    idempotent: true,
    conditional: true,
    async handle({ organization, params: { credentialId }, body, idempotencyKey, ifMatch }) {
      const how = { idempotencyKey, ifMatch }
      const changed = await credentials.change({ organization, credentialId }, body, how)
      return {
        body: changed.credential,
        headers: { etag: changed.etag, ...replayed(changed.replayed).headers },
      }
    },
  })
}

function removeRoute(credentials: CredentialService): Route {
  return route({
    id: 'deleteCredential',
    method: 'delete',
    path: `${PATH}/{credentialId}`,
    tag: TAG,
    summary: 'Delete a registry credential',
    description:
      'Deletes the credential immediately. Davit then removes its parameter from the AWS account. If this fails permanently, an Event reports the location of the parameter.',
    permission: MANAGE_CREDENTIALS,
    params,
    success: { status: 204, description: 'The credential has been deleted.' },
    problems: ['managed_elsewhere', 'precondition_failed'],
    conditional: true,
    async handle({ organization, params: { credentialId }, ifMatch }) {
      await credentials.remove({ organization, credentialId }, { ifMatch })
      return {}
    },
  })
}
