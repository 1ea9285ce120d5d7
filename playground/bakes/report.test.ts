import { expect, test } from 'vitest'
import { type BoxTemplate, boxTemplate } from '../../src/apis/box-template.ts'
import { details, table, tries } from './report.ts'

const DIGEST = `sha256:${'0123456789abcdef'.repeat(4)}`
const LONG = `\u001b[31mtime="now" level=fatal\u001b[0m ${'word '.repeat(40)}${'z'.repeat(300)}`

function box(name: string, ready: string, bake: object): BoxTemplate {
  const metadata = { name, namespace: 'acme', uid: 'u', resourceVersion: '1', generation: 1 }
  const services = [{ name: 'api', kind: 'custom', image: 'localhost:1/acme/api:1' }]
  const conditions = [
    {
      type: 'Ready',
      status: ready === 'Baked' ? 'True' : 'False',
      reason: ready,
      message: '',
      lastTransitionTime: '2026-01-31T12:00:00Z',
      observedGeneration: 1,
    },
  ]
  const status = { observedGeneration: 1, conditions, bake: { number: 1, attempts: 1, ...bake } }
  return boxTemplate.parse({ metadata, spec: { services }, status })
}

const SERVICE = { name: 'api', image: 'localhost:1/acme/api:1' }
const CREDENTIAL = { id: 'rc_a', parameterVersion: 3, why: 'It is named.' }
const WORKS = box('works', 'Baked', {
  state: 'succeeded',
  services: [{ ...SERVICE, digest: DIGEST, credential: CREDENTIAL }],
})
const FAILED = box('wrong-password', 'WrongCredentials', {
  state: 'failed',
  services: [SERVICE],
  failure: { service: 'api', step: 'login', code: 'wrong_credentials', message: LONG, fix: 'Mend it.' },
})

test('boxes are shown as kubectl does', () => {
  expect(table([WORKS, FAILED])).toEqual([
    '    NAME             STATE       READY   REASON',
    '    works            succeeded   True    Baked',
    '    wrong-password   failed      False   WrongCredentials',
  ])
})

test('of one that succeeded there is the digest, the credential and why', () => {
  expect(details(WORKS)).toEqual([
    '    works, bake 1',
    '      service     api: localhost:1/acme/api:1',
    `      digest      ${DIGEST}`,
    '      credential  rc_a, version 3 of its secret',
    '      why         It is named.',
  ])
})

test('of one that failed there is the code, the words of the tool and the fix, which fit and are plain', () => {
  const lines = details(FAILED)
  expect(lines).toContain('      code        wrong_credentials (login of api)')
  expect(lines).toContain('      fix         Mend it.')
  expect(lines.find((line) => line.includes('output '))).toMatch(/ time="now" level=fatal word /)
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(100)
  expect(lines.join('')).not.toContain('\u001b')
  expect(lines.join('').match(/z/g)).toHaveLength(300)
})

test('no password is printed to be pasted', () => {
  const lines = tries({
    baseUrl: 'http://127.0.0.1:1',
    keyFile: '/state/acme.key',
    passwordFile: '/my state/registry.password',
    credential: 'rc_b',
    log: '/state/bakes.log',
  })
  expect(lines.at(-2)).toContain(`/rc_b --json "{\\"secret\\":\\"$(cat '/my state/registry.password')\\"}"`)
})
