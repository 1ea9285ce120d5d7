/** The metadata service of an instance with a role, as far as the SDK uses it (IMDSv2), for AWS_EC2_METADATA_SERVICE_ENDPOINT. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export type RoleSession = { accessKeyId: string; secretAccessKey: string; sessionToken: string }

const ROLE = 'box'
const PATH = '/latest/meta-data/iam/security-credentials/'
const TOKEN = 'token-of-the-metadata'
const LIFE_MS = 3_600_000

/** @param session absent: an instance without a role */
export async function startInstanceMetadata(
  session: RoleSession | undefined,
): Promise<{ url: string; stop(): Promise<void> }> {
  const credentials = session && {
    Code: 'Success',
    AccessKeyId: session.accessKeyId,
    SecretAccessKey: session.secretAccessKey,
    Token: session.sessionToken,
    Expiration: new Date(Date.now() + LIFE_MS).toISOString(),
  }
  const pages: Record<string, string> = credentials
    ? { [PATH]: ROLE, [`${PATH}${ROLE}`]: JSON.stringify(credentials) }
    : {}
  const server = createServer((request, response) => {
    const isToken = request.method === 'PUT' && request.url === '/latest/api/token'
    const isAllowed = request.headers['x-aws-ec2-metadata-token'] === TOKEN
    const page = isToken ? TOKEN : pages[request.url ?? '']
    response.statusCode = page === undefined ? 404 : isToken || isAllowed ? 200 : 401
    response.end(response.statusCode === 200 ? page : '')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
