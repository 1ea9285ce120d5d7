import { describe, expect, it } from 'vitest'
import { ConfigError, parseBakeConfig } from './config.ts'

const ORDER = {
  template: { namespace: 'acme', name: 'shop', uid: 'uid' },
  bake: 'shop-1',
  services: [{ name: 'api', image: 'ghcr.io/acme/api:1.0' }],
  output: { kind: 'none' },
  realms: [],
  deadlineSeconds: 600,
}
const DAVIT_BAKE_ORDER = JSON.stringify(ORDER)

const ordered = (template: object) => ({
  DAVIT_BAKE_ORDER: JSON.stringify({ ...ORDER, template: { ...ORDER.template, ...template } }),
})

const mistakeOf = (environment: Record<string, string>) => {
  try {
    parseBakeConfig(environment)
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
  return 'none'
}

describe('the settings of a bake', () => {
  it('are those of its pod where nothing else is said', () => {
    expect(parseBakeConfig({ DAVIT_BAKE_ORDER })).toEqual({
      order: ORDER,
      memory: '/run/davit',
      scratch: '/output',
      terminationLog: '/dev/termination-log',
      extraCaFile: undefined,
      logLevel: 'info',
      tool: {},
    })
  })

  it('give the tool nothing that is an identity', () => {
    const { tool } = parseBakeConfig({
      DAVIT_BAKE_ORDER,
      PATH: '/usr/bin',
      SSL_CERT_FILE: '/etc/ca.pem',
      AWS_ROLE_ARN: 'arn',
      AWS_WEB_IDENTITY_TOKEN_FILE: '/token',
    })
    expect(tool).toEqual({ PATH: '/usr/bin', SSL_CERT_FILE: '/etc/ca.pem' })
  })

  it.each<[Record<string, string>, string]>([
    [{}, 'DAVIT_BAKE_ORDER: must be a bake order as JSON'],
    [{ DAVIT_BAKE_ORDER: '{' }, 'as JSON'],
    [{ DAVIT_BAKE_ORDER: JSON.stringify({ ...ORDER, bake: '../etc' }) }, 'must be a valid bake order: bake'],
    ...['..', '.davit', 'a/b', '/etc', 'Shop', ''].map((name): [Record<string, string>, string] => [
      ordered({ name }),
      'must be a valid bake order: template.name: must be a DNS label',
    ]),
    [ordered({ namespace: '../acme' }), 'must be a valid bake order: template.namespace'],
    [{ DAVIT_BAKE_ORDER: 'x'.repeat(70_000) }, 'must be at most 65536 bytes'],
    [{ DAVIT_BAKE_ORDER, DAVIT_TMPFS: 'here' }, 'DAVIT_TMPFS: must be an absolute path'],
    [{ DAVIT_BAKE_ORDER, DAVIT_LOG_LEVEL: 'loud' }, 'must be info, warn or error'],
  ])('are refused with a reason: %o', (environment, want) => expect(mistakeOf(environment)).toContain(want))
})
