import { expect, test } from 'vitest'
import { parseUninstallConfig, withoutUninstallVariables } from './config.ts'

const LABELS = 'app.kubernetes.io/name=davit,app.kubernetes.io/instance'

test('the pods of both roles are meant, and not those of the Job itself', () => {
  expect(parseUninstallConfig({ DAVIT_RELEASE: 'hooks' })).toEqual({
    podSelector: `${LABELS}=hooks,app.kubernetes.io/component in (controller,api)`,
    deployments: [],
    limitMs: 120_000,
  })
})

test('names of Deployments are separated by commas', () => {
  const given = {
    DAVIT_RELEASE: 'a',
    DAVIT_RELEASE_DEPLOYMENTS: 'a-controller,a-api',
    DAVIT_RELEASE_TIMEOUT: '55s',
  }
  const { deployments, limitMs } = parseUninstallConfig(given)
  expect(deployments).toEqual(['a-controller', 'a-api'])
  expect(limitMs).toBe(55_000)
})

test('what is left is for the other settings, which know none of these', () => {
  const given = { DAVIT_RELEASE: 'a', DAVIT_RELEASE_TIMEOUT: '55s', DAVIT_NAMESPACE: 'davit-system' }
  expect(withoutUninstallVariables(given)).toEqual({ DAVIT_NAMESPACE: 'davit-system' })
})

test('every mistake is named', () => {
  const given = { DAVIT_RELEASE: 'a,b=c', DAVIT_RELEASE_DEPLOYMENTS: 'A B', DAVIT_RELEASE_TIMEOUT: '0s' }
  expect(() => parseUninstallConfig(given)).toThrow(
    /DAVIT_RELEASE:.*DAVIT_RELEASE_DEPLOYMENTS:.*DAVIT_RELEASE_TIMEOUT:/s,
  )
})
