import { expect, it } from 'vitest'
import { USUAL_URL } from './receiver.ts'
import { reminder, type WelcomeOptions, welcome } from './welcome.ts'

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

it('names the address of the receiver if it is not the one of the examples', () => {
  expect(welcome({ ...OPTIONS, receiver: USUAL_URL }).join('\n')).not.toContain('examples/endpoint.yaml')
  expect(welcome(OPTIONS).join('\n')).toContain('listens at http://127.0.0.1:65535.')
})

it('ends with the keys, or with Ctrl-C if there is no terminal to read keys from', () => {
  const file = '.davit/instructions.txt'
  for (const hasKeys of [true, false]) expect(reminder(file, hasKeys)[0]).toContain(file)
  expect(reminder(file, true)[1]).toMatch(/^Press h .* q or Ctrl-C to stop everything\.$/)
  expect(reminder(file, false)[1]).toBe('Press Ctrl-C to stop everything.')
})
