/** Form requests, XML answers: STS. */
import { AwsError } from './aws-error.ts'
import type { Protocol } from './protocol.ts'

type Tree = { [name: string]: Tree | string }

const CONTENT_TYPE = /^application\/x-www-form-urlencoded(; ?charset=utf-8)?$/i
const MAX_FIELDS = 500
const MAX_DEPTH = 6

export function queryProtocol(options: { version: string; namespace: string }): Protocol {
  const { version, namespace } = options
  const answer = (status: number, body: string, requestId: string) => ({
    status,
    headers: { 'content-type': 'text/xml', 'x-amzn-requestid': requestId },
    body,
  })
  return {
    skewMinutes: 15,
    decode(headers, body) {
      if (!CONTENT_TYPE.test(String(headers['content-type'] ?? '')))
        throw AwsError.of('missing-token', 'Request is missing Authentication Token')
      const { Action, Version, ...input } = readForm(body)
      if (typeof Action !== 'string' || Version !== version)
        throw AwsError.of('unknown-operation', `Could not find operation ${Action} for version ${Version}`)
      return { operation: Action, input }
    },
    success: (operation, result, requestId) =>
      answer(
        200,
        `<${operation}Response xmlns="${namespace}"><${operation}Result>${toXml(result)}</${operation}Result>` +
          `<ResponseMetadata><RequestId>${requestId}</RequestId></ResponseMetadata></${operation}Response>`,
        requestId,
      ),
    failure: ({ code, status, message }, requestId) =>
      answer(
        status,
        `<ErrorResponse xmlns="${namespace}"><Error><Type>${status < 500 ? 'Sender' : 'Receiver'}</Type>` +
          `<Code>${escapeXml(code)}</Code><Message>${escapeXml(message)}</Message></Error>` +
          `<RequestId>${requestId}</RequestId></ErrorResponse>`,
        requestId,
      ),
    common: {
      'access-denied': { code: 'AccessDenied', status: 403 },
      'expired-token': { code: 'ExpiredToken', status: 403 },
      'incomplete-signature': { code: 'IncompleteSignature', status: 400 },
      internal: { code: 'InternalFailure', status: 500 },
      'invalid-token': { code: 'InvalidClientTokenId', status: 403 },
      malformed: { code: 'MalformedInput', status: 400 },
      'missing-token': { code: 'MissingAuthenticationToken', status: 403 },
      signature: { code: 'SignatureDoesNotMatch', status: 403 },
      throttled: { code: 'Throttling', status: 400 },
      unavailable: { code: 'ServiceUnavailable', status: 503 },
      'unknown-operation': { code: 'InvalidAction', status: 400 },
      validation: { code: 'ValidationError', status: 400 },
    },
  }
}

/** `Tags.member.1.Key=a` becomes `{ Tags: [{ Key: 'a' }] }`. */
function readForm(body: string): Record<string, unknown> {
  const fields = [...new URLSearchParams(body)]
  if (fields.length > MAX_FIELDS) throw AwsError.of('malformed', 'Too many parameters')
  const tree: Tree = Object.create(null)
  for (const [name, value] of fields) {
    const path = name.split('.')
    if (path.length > MAX_DEPTH) throw AwsError.of('malformed', 'Unexpected parameter')
    plant(tree, path, value)
  }
  return Object.fromEntries(Object.entries(tree).map(([name, branch]) => [name, withLists(branch)]))
}

function plant(tree: Tree, path: string[], value: string): void {
  const [name = '', ...rest] = path
  if (rest.length === 0) {
    if (name in tree) throw AwsError.of('malformed', 'Duplicate parameter')
    tree[name] = value
    return
  }
  tree[name] ??= Object.create(null) as Tree
  const branch = tree[name]
  if (typeof branch === 'string') throw AwsError.of('malformed', 'Duplicate parameter')
  plant(branch, rest, value)
}

function withLists(branch: Tree | string): unknown {
  if (typeof branch === 'string') return branch
  const members = branch.member
  if (members === undefined || typeof members === 'string')
    return Object.fromEntries(Object.entries(branch).map(([name, inner]) => [name, withLists(inner)]))
  const numbers = Object.keys(members)
    .map(Number)
    .sort((a, b) => a - b)
  if (numbers.some((number, index) => number !== index + 1))
    throw AwsError.of('malformed', 'Unexpected list element')
  return numbers.map((number) => withLists(members[number] ?? ''))
}

function toXml(value: unknown): string {
  if (typeof value !== 'object' || value === null) return escapeXml(String(value))
  return Object.entries(value)
    .filter(([, inner]) => inner !== undefined)
    .map(([name, inner]) => `<${name}>${toXml(inner)}</${name}>`)
    .join('')
}

function escapeXml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
