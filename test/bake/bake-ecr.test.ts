/** A bake from ECR under its own name: it has its own list of hosts, and a registry on the port for HTTPS, which takes root. */
import { writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeImage } from '../../playground/bakes/images.ts'
import { type BakeBed, BOX_POLICY, startBakeBed } from '../support/bake/bake-bed.ts'
import { orderOf } from '../support/bake/bake-order.ts'
import { BakePod } from '../support/bake/bake-process.ts'
import { leaksIn, leaksInFolder } from '../support/bake/canary.ts'
import { recordFailure } from '../support/bake/expect-failure.ts'
import { startTestRegistry, type TestRegistry } from '../support/registry/test-registry.ts'

const REGION = 'eu-west-1'
const HOST = `222222222222.dkr.ecr.${REGION}.amazonaws.com`
/** Only of loopback. */
const ADDRESS = '127.0.77.1'
const CREDENTIAL = { id: 'rc_ecr', type: 'ecr' as const, registry: HOST }

describe('a bake from ECR', () => {
  let bed: BakeBed
  let registry: TestRegistry
  let pod: BakePod
  let digest: string
  /** Passwords that were sent. */
  let passwords: string[]

  /** ECR itself: Basic, with passwords that it has given out. */
  function answer(request: IncomingMessage, response: ServerResponse): boolean {
    const login = /^Basic (.+)$/.exec(request.headers.authorization ?? '')?.[1]
    const refuse = (status: number, code: string, message: string) => {
      response.writeHead(status, {
        'content-type': 'application/json',
        ...(status === 401 && {
          'www-authenticate': `Basic realm="https://${HOST}/",service="ecr.amazonaws.com"`,
        }),
      })
      response.end(JSON.stringify({ errors: [{ code, message }] }))
      return true
    }
    if (login === undefined) return refuse(401, 'UNAUTHORIZED', 'Not Authorized')
    const [username = '', ...rest] = Buffer.from(login, 'base64').toString('utf8').split(':')
    const password = rest.join(':')
    passwords.push(password)
    const verdict = bed.aws.verifyEcrPassword({ username, password, region: REGION })
    if (verdict.ok) return false
    const expired = 'Your authorization token has expired. Reauthenticate and try again.'
    return refuse(verdict.status, 'DENIED', verdict.reason === 'expired' ? expired : 'Not Authorized')
  }

  beforeAll(async () => {
    passwords = []
    bed = await startBakeBed()
    registry = await startTestRegistry({
      auth: 'none',
      names: [HOST],
      listen: { host: ADDRESS, port: 443, name: HOST },
    })
    registry.front.trouble = answer
    digest = await registry.push('acme/api', '1.0', makeImage({ layers: ['base', 'api'] }))
    pod = new BakePod()
    writeFileSync(join(pod.folder, 'hosts'), `127.0.0.1 localhost\n${ADDRESS} ${HOST}\n`)
  }, 120_000)
  afterAll(async () => {
    await registry?.stop()
    await bed?.stop()
    pod?.remove()
  })

  const bake = () =>
    pod.start(
      orderOf([{ name: 'api', image: `${HOST}/acme/api:1.0`, credential: CREDENTIAL }], pod.output, {
        // It is on this machine.
        realms: [HOST],
      }),
      bed.environment(registry.ca),
      [
        'unshare',
        '--map-root-user',
        '--mount',
        'sh',
        '-c',
        `mount --bind ${join(pod.folder, 'hosts')} /etc/hosts && exec "$@"`,
        'sh',
      ],
    ).ended

  it('gets its login at the pull, in the region of the host, and no secret is stored anywhere', async () => {
    const { code, result, log } = await bake()
    expect({ code, result }, log).toMatchObject({
      code: 0,
      result: { services: [{ name: 'api', digest, verified: { ok: true } }] },
    })
    expect(bed.account.parameters(REGION).list()).toEqual([])
    expect(bed.aws.trail.entries({ operation: 'GetAuthorizationToken' })).toMatchObject([
      { region: REGION, principal: expect.stringContaining(':assumed-role/box/') },
    ])
    for (const password of new Set(passwords)) {
      expect(leaksIn(log + JSON.stringify(result), password, 'AWS')).toEqual([])
      expect(leaksInFolder(pod.folder, password, 'AWS')).toEqual([])
    }
  })

  it('fails where the role may not ask for a login', async () => {
    const [, , ...others] = BOX_POLICY.Statement
    const statements = BOX_POLICY.Statement.filter((statement) => !others.includes(statement))
    bed.account.changeRole(bed.role, { policies: { box: { ...BOX_POLICY, Statement: statements } } })
    const { result } = await bake()
    bed.account.changeRole(bed.role, { policies: { box: BOX_POLICY } })
    recordFailure('a role that may not ask for a login of ECR', result?.failure)
    expect(result?.failure).toMatchObject({
      step: 'read-secret',
      code: 'secret_unreadable',
      message: expect.stringMatching(/^ecr:GetAuthorizationToken AccessDeniedException/),
    })
  })

  it('fails where the role may not pull, in the words of ECR', async () => {
    const message =
      'User: arn:aws:sts::222222222222:assumed-role/box/box is not authorized to perform: ecr:BatchGetImage'
    registry.front.trouble = (request, response) => {
      if (!request.url?.includes('/manifests/') || !request.headers.authorization)
        return answer(request, response)
      response.writeHead(403, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ errors: [{ code: 'DENIED', message }] }))
      return true
    }
    const { result } = await bake()
    registry.front.trouble = answer
    recordFailure('a role that may not pull from the repository of ECR', result?.failure)
    expect(result?.failure).toMatchObject({
      step: 'pull',
      code: 'no_pull_permission',
      message: expect.stringContaining('is not authorized to perform: ecr:BatchGetImage'),
    })
    expect(result?.services[0]?.verified).toMatchObject({ ok: false, code: 'no_pull_permission' })
  })
})
