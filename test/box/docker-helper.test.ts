/** docker-credential-davit as docker runs it: a process, its stdin, its stdout, its stderr and how it ends. */
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { leaksInFolder } from '../support/bake/canary.ts'
import { ACCOUNT, BoxBed, PROGRAMS, REGION } from '../support/box/box-bed.ts'

const HOST = 'registry.example.com:5000'
const ECR = `${ACCOUNT}.dkr.ecr.${REGION}.amazonaws.com`
const SECRET = 'canary-of-the-registry-4f1c'
/** It ends a provider of credentials that takes longer. */
const KUBELET_WAITS_MS = 60_000

let bed: BoxBed

beforeAll(async () => {
  bed = await BoxBed.start()
  const repositories = ['acme/api']
  await bed.map('web', [
    await bed.token({ id: 'rc_main', registry: HOST, repositories, secret: SECRET }),
    await bed.token({
      id: 'rc_one',
      registry: 'two.example.com',
      repositories: ['one/x'],
      secret: `1-${SECRET}`,
    }),
    await bed.token({
      id: 'rc_two',
      registry: 'two.example.com',
      repositories: ['two/x'],
      secret: `2-${SECRET}`,
    }),
    { id: 'rc_ecr', type: 'ecr', registry: ECR, repositories: ['api'] },
  ])
})

beforeEach(() => bed.aws.trail.clear())

afterAll(async () => {
  expect(bed.aws.defects).toEqual([])
  // Nothing was stored next to the credentials files or in Node's compile cache.
  const compiled = join(PROGRAMS, '..', 'node_modules', '.cache', 'davit')
  expect(readdirSync(compiled).length).toBeGreaterThan(0)
  for (const folder of [bed.folder, compiled]) expect(leaksInFolder(folder, SECRET, 'acme-bot')).toEqual([])
  await bed.stop()
})

const NOT_FOUND = 'credentials not found in native keychain\n'
const STORES_NOTHING = /^This helper does not store credentials\. Create a RegistryCredential/

/**
 * What docker 28.2.2 asked of a helper, written down by one that sat between: the action, the bytes on stdin, and what docker made
 * of the end. The configuration named the helper for the two hosts and for Docker Hub; the last two are of a `credsStore`.
 */
const DIALOGUE = [
  {
    command: 'docker pull registry.example.com:5000/acme/api:1',
    asked: ['get', HOST],
    answered: { exitCode: 0, stdout: `{"ServerURL":"${HOST}","Username":"acme-bot","Secret":"${SECRET}"}\n` },
  },
  {
    command: 'docker pull two.example.com/acme/api:1',
    asked: ['get', 'two.example.com'],
    answered: {
      exitCode: 1,
      stdout: /^two\.example\.com has 2 credentials here \(acme\/rc_one, acme\/rc_two\)/,
    },
  },
  {
    command: 'docker pull postgres:17',
    asked: ['get', 'https://index.docker.io/v1/'],
    answered: { exitCode: 1, stdout: NOT_FOUND },
  },
  {
    command: 'docker login -u typed --password-stdin registry.example.com:5000',
    asked: ['store', `{"ServerURL":"${HOST}","Username":"typed","Secret":"typed"}\n`],
    answered: { exitCode: 1, stdout: STORES_NOTHING },
  },
  {
    command: 'docker login registry.example.com:5000, with the login that it got from the helper',
    asked: ['store', `{"ServerURL":"${HOST}","Username":"acme-bot","Secret":"${SECRET}"}\n`],
    answered: { exitCode: 0, stdout: '' },
  },
  {
    command: 'aws ecr get-login-password | docker login -u AWS --password-stdin',
    asked: ['store', `{"ServerURL":"${ECR}","Username":"AWS","Secret":"a token"}\n`],
    answered: { exitCode: 0, stdout: '' },
  },
  {
    command: 'docker logout registry.example.com:5000',
    asked: ['erase', HOST],
    answered: { exitCode: 0, stdout: '' },
  },
  {
    command: 'docker logout registry.example.com:5000, for the same as a URL',
    asked: ['erase', `http://${HOST}`],
    answered: { exitCode: 0, stdout: '' },
  },
  {
    command: 'docker logout quay.io',
    asked: ['erase', 'quay.io'],
    answered: { exitCode: 0, stdout: '' },
  },
  {
    command: 'docker logout',
    asked: ['get', 'https://index.docker.io/v1/refresh-token'],
    answered: { exitCode: 1, stdout: NOT_FOUND },
  },
  {
    command: 'docker logout',
    asked: ['erase', 'https://index.docker.io/v1/'],
    answered: { exitCode: 0, stdout: '' },
  },
] as const

describe('the dialogue with docker', () => {
  it.each(DIALOGUE)('$command', async ({ asked: [action, input], answered }) => {
    const { exitCode, stdout, stderr } = await bed.ask(action, input)
    expect(exitCode).toBe(answered.exitCode)
    if (typeof answered.stdout === 'string') expect(stdout).toBe(answered.stdout)
    else expect(stdout).toMatch(answered.stdout)
    // docker pull continues without a credential and prints only stderr, so the reason must be there.
    const isReason = exitCode === 1 && stdout !== NOT_FOUND
    expect(stderr).toBe(isReason ? `docker-credential-davit: ${stdout}` : '')
    expect(stderr).not.toContain(SECRET)
  })
})

describe('an answer', () => {
  it('is fetched with the role of the instance, in the version that the bake read', async () => {
    await bed.put('/davit/acme/rc_main', 'a newer one')
    const { stdout } = await bed.ask('get', HOST)
    expect(JSON.parse(stdout)).toMatchObject({ Secret: SECRET })
    const [read] = bed.aws.trail.entries({ operation: 'GetParameter' })
    expect(read).toMatchObject({
      region: REGION,
      principal: expect.stringContaining('assumed-role/machine/i-'),
    })
  })

  it('is a token of ECR of the region of the host, another one each time', async () => {
    const [first, second] = [await bed.ask('get', ECR), await bed.ask('get', ECR)]
    const { Username, Secret } = JSON.parse(first.stdout)
    expect(bed.aws.verifyEcrPassword({ username: Username, password: Secret, region: REGION }).ok).toBe(true)
    expect(JSON.parse(second.stdout).Secret).not.toBe(Secret)
  })

  it('lists hosts without asking AWS', async () => {
    const { stdout } = await bed.ask('list', 'unused')
    expect(JSON.parse(stdout)).toEqual({ [HOST]: 'acme-bot', [ECR]: 'AWS' })
    expect(bed.aws.trail.entries({})).toEqual([])
  })

  it('is the version', async () => {
    expect((await bed.ask('version', '')).stdout).toMatch(
      /^docker-credential-davit \(davit\.dev\) \d+\.\d+\.\d+\n$/,
    )
  })
})

describe('what is missing is said', () => {
  it('when the role may not read', async () => {
    const { policies } = bed.role
    bed.account.changeRole(bed.role, { policies: {} })
    const { exitCode, stdout } = await bed.ask('get', HOST)
    bed.role.policies = policies
    expect(exitCode).toBe(1)
    expect(stdout).toMatch(/^rc_main: AccessDeniedException \(ssm:GetParameter\): /)
    expect(stdout).toContain(`This machine's role needs ssm:GetParameter on /davit/acme/rc_main in ${REGION}`)
  })

  it('when there is nobody to ask as', async () => {
    const { exitCode, stdout } = await bed.ask('get', HOST, { AWS_EC2_METADATA_DISABLED: 'true' })
    expect(exitCode).toBe(1)
    expect(stdout).toMatch(/^rc_main: NoIdentity: .*This machine does not have AWS credentials/)
  })

  it('when the metadata of the machine do not answer, in time for whoever waits for the pull', async () => {
    const silent = createServer().listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
    const { exitCode, stdout, ms } = await bed.ask('get', HOST, { AWS_EC2_METADATA_SERVICE_ENDPOINT: url })
    silent.close()
    expect(exitCode).toBe(1)
    expect(stdout).toMatch(/^rc_main: NoIdentity: .*This machine does not have AWS credentials/)
    expect(ms).toBeLessThan(KUBELET_WAITS_MS / 2)
  })

  it('when AWS does not answer, in time as well', async () => {
    const silence = bed.aws.script.add({
      operation: '*',
      effect: { latencyMs: 3_600_000 },
      times: Number.POSITIVE_INFINITY,
    })
    const { exitCode, stdout, ms } = await bed.ask('get', HOST)
    silence.remove()
    expect(exitCode).toBe(1)
    expect(stdout).toMatch(/^rc_main: \w+ \(ssm:GetParameter\).* This may be temporary\. Retry the pull\.\n$/)
    expect(ms).toBeLessThan(KUBELET_WAITS_MS / 2)
  })

  it('when there is no map', async () => {
    const { exitCode, stdout } = await bed.ask('get', HOST, { DAVIT_CREDENTIALS: '/nowhere' })
    expect({ exitCode, stdout }).toMatchObject({
      exitCode: 1,
      stdout: expect.stringContaining('/nowhere does not exist'),
    })
  })

  it('when a setting is wrong', async () => {
    const { exitCode, stderr } = await bed.ask('get', HOST, { DAVIT_CREDENTIALS: 'maps' })
    expect({ exitCode, stderr }).toEqual({
      exitCode: 1,
      stderr: 'docker-credential-davit: invalid environment: DAVIT_CREDENTIALS must be an absolute path\n',
    })
  })

  it('when more comes on stdin than a host can be', async () => {
    const { exitCode, stderr } = await bed.ask('get', 'x'.repeat(70_000))
    expect({ exitCode, stderr }).toEqual({
      exitCode: 1,
      stderr: 'docker-credential-davit: stdin has more than 65536 bytes\n',
    })
  })
})
