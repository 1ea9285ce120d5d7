import { expect, it } from 'vitest'
import { type WelcomeOptions, welcome } from './welcome.ts'

const OPTIONS: WelcomeOptions = {
  kubeconfig: '/tmp/davit-control-plane-abcdef/kubeconfig',
  kubectl: '/usr/bin/kubectl',
  baseUrl: 'http://127.0.0.1:65535',
  keyFile: '/home/somebody/davit/.davit/acme.key',
  otherKeyFile: '/home/somebody/davit/.davit/globex.key',
  receiver: 'http://127.0.0.1:65535',
  realWaits: false,
  once: false,
  controllers: [{ replica: 'playground-controller', pid: 123456 }],
  held: ['Its AWS account is empty.'],
  searchPath: '/usr/local/bin:/usr/bin',
}

it('fits a terminal of 100 columns', () => {
  for (const realWaits of [true, false])
    expect(Math.max(...welcome({ ...OPTIONS, realWaits }).map((line) => line.length))).toBeLessThanOrEqual(
      100,
    )
})

it('names the kubectl that it has where the shell would not find it', () => {
  expect(welcome(OPTIONS).filter((line) => line.includes('PATH='))).toEqual([])
  expect(welcome({ ...OPTIONS, kubectl: '/home/me/.cache/davit/kubectl' })).toContain(
    '  export PATH=/home/me/.cache/davit:$PATH',
  )
})

it('has no commands to paste for one that ends by itself', () => {
  expect(welcome({ ...OPTIONS, once: true }).join('\n')).not.toMatch(/kubectl|curl/)
})
