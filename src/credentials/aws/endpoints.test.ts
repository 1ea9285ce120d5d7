import { afterEach, describe, expect, it } from 'vitest'
import { AwsClients } from './clients.ts'

const ENVIRONMENT = [
  'AWS_USE_FIPS_ENDPOINT',
  'AWS_USE_DUALSTACK_ENDPOINT',
  'AWS_ENDPOINT_URL',
  'AWS_ENDPOINT_URL_SSM',
]
const CREDENTIALS = { accessKeyId: 'key', secretAccessKey: 'secret', sessionToken: 'token' }

type Service = 'ssm' | 'sts' | 'ecr'
type Asked = { service: Service; region: string }

const clients = new AwsClients('davit/test')

afterEach(() => {
  for (const name of ENVIRONMENT) delete process.env[name]
})

type Described = { httpHandlerConfigs(): object }

class Sent extends Error {
  readonly request: { protocol: string; hostname: string; headers: Record<string, string> }

  constructor(request: unknown) {
    super()
    this.request = request as Sent['request']
  }
}

/** The request as it would be sent, which it is not. */
async function requestOf({ service, region }: Asked): Promise<Sent['request']> {
  process.env.AWS_ACCESS_KEY_ID = 'key'
  process.env.AWS_SECRET_ACCESS_KEY = 'secret'
  const requestHandler = {
    handle: (request: unknown) => Promise.reject(new Sent(request)),
    metadata: { handlerProtocol: 'http/1.1' },
    updateHttpClientConfig() {},
    httpHandlerConfigs: () => ({}),
  }
  try {
    if (service === 'ssm') {
      const { module, client } = await clients.ssm(region, CREDENTIALS)
      client.config.requestHandler = requestHandler as never
      await client.send(new module.DeleteParameterCommand({ Name: '/davit' }))
    } else if (service === 'sts') {
      const { module, client } = await new AwsClients('davit/test').ownSts(region)
      client.config.requestHandler = requestHandler as never
      await client.send(new module.GetCallerIdentityCommand({}))
    } else {
      const { module, client } = await clients.ownEcr(region)
      client.config.requestHandler = requestHandler as never
      await client.send(new module.GetAuthorizationTokenCommand({}))
    }
  } catch (error) {
    if (error instanceof Sent) return error.request
    throw error
  } finally {
    delete process.env.AWS_ACCESS_KEY_ID
    delete process.env.AWS_SECRET_ACCESS_KEY
  }
  throw new Error('it was answered')
}

const hostOf = async (asked: Asked) => (await requestOf(asked)).hostname

describe('where a call goes', () => {
  it.each([
    { service: 'sts', region: 'eu-west-1', want: 'sts.eu-west-1.amazonaws.com' },
    { service: 'sts', region: 'us-east-1', want: 'sts.us-east-1.amazonaws.com' },
    { service: 'ssm', region: 'eu-west-1', want: 'ssm.eu-west-1.amazonaws.com' },
    { service: 'ecr', region: 'eu-west-1', want: 'api.ecr.eu-west-1.amazonaws.com' },
    { service: 'sts', region: 'cn-north-1', want: 'sts.cn-north-1.amazonaws.com.cn' },
    { service: 'ssm', region: 'cn-northwest-1', want: 'ssm.cn-northwest-1.amazonaws.com.cn' },
    { service: 'ssm', region: 'us-gov-west-1', want: 'ssm.us-gov-west-1.amazonaws.com' },
    { service: 'ssm', region: 'us-iso-east-1', want: 'ssm.us-iso-east-1.c2s.ic.gov' },
    { service: 'ssm', region: 'us-isob-east-1', want: 'ssm.us-isob-east-1.sc2s.sgov.gov' },
    { service: 'ssm', region: 'eu-isoe-west-1', want: 'ssm.eu-isoe-west-1.cloud.adc-e.uk' },
    { service: 'ssm', region: 'us-isof-south-1', want: 'ssm.us-isof-south-1.csp.hci.ic.gov' },
    { service: 'sts', region: 'eusc-de-east-1', want: 'sts.eusc-de-east-1.amazonaws.eu' },
  ] satisfies (Asked & { want: string })[])('is $want', async ({ want, ...asked }) => {
    expect(await hostOf(asked)).toBe(want)
  })

  it.each([
    { service: 'sts', region: 'us-east-1', want: 'sts-fips.us-east-1.amazonaws.com' },
    { service: 'ssm', region: 'us-east-1', want: 'ssm-fips.us-east-1.amazonaws.com' },
    { service: 'ecr', region: 'us-east-1', want: 'api.ecr-fips.us-east-1.amazonaws.com' },
    { service: 'sts', region: 'us-gov-west-1', want: 'sts.us-gov-west-1.amazonaws.com' },
    { service: 'ssm', region: 'us-gov-west-1', want: 'ssm.us-gov-west-1.amazonaws.com' },
  ] satisfies (Asked & { want: string })[])(
    'is $want where FIPS is asked for',
    async ({ want, ...asked }) => {
      process.env.AWS_USE_FIPS_ENDPOINT = 'true'
      expect(await hostOf(asked)).toBe(want)
    },
  )

  it('is the address of the environment, and that of the service before it', async () => {
    process.env.AWS_ENDPOINT_URL = 'http://all.test:8080'
    expect(await hostOf({ service: 'ssm', region: 'eu-west-1' })).toBe('all.test')
    process.env.AWS_ENDPOINT_URL_SSM = 'https://ssm.test'
    expect(await requestOf({ service: 'ssm', region: 'eu-west-1' })).toMatchObject({
      protocol: 'https:',
      hostname: 'ssm.test',
    })
    expect(await hostOf({ service: 'sts', region: 'eu-west-1' })).toBe('all.test')
  })
})

describe('a request', () => {
  it('is given up when no answer comes', async () => {
    const { client } = await clients.ssm('eu-west-1', CREDENTIALS)
    const requestHandler = client.config.requestHandler as typeof client.config.requestHandler & Described
    // What it goes by is only known once it has handled a request.
    const request = { protocol: 'http:', hostname: '127.0.0.1', port: 1, headers: {} }
    await requestHandler.handle(request as never).catch(() => undefined)
    expect(requestHandler.httpHandlerConfigs()).toMatchObject({
      connectionTimeout: 2000,
      requestTimeout: 5000,
      throwOnRequestTimeout: true,
      httpsAgent: expect.objectContaining({ maxSockets: 50, keepAlive: true }),
    })
  })

  it('says whose it is', async () => {
    const { headers } = await requestOf({ service: 'ssm', region: 'eu-west-1' })
    expect(headers['user-agent']).toContain('davit/test')
  })

  it('is signed for its region', async () => {
    const { headers } = await requestOf({ service: 'sts', region: 'ap-southeast-4' })
    expect(headers.authorization).toContain('/ap-southeast-4/sts/aws4_request')
  })
})
