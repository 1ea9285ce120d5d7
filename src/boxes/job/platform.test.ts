import { describe, expect, test } from 'vitest'
import { fitsBox, formatPlatform, machinePlatform, parsePlatform } from './platform.ts'

const linux = (architecture: string, variant?: string) => ({ os: 'linux', architecture, variant })

describe('an image for one platform', () => {
  test.for([
    ['linux/arm64', linux('amd64')],
    ['linux/amd64', linux('arm64', 'v8')],
    ['linux/amd64', { os: 'windows', architecture: 'amd64' }],
    ['linux/amd64', linux('386')],
    ['linux/arm64', linux('arm', 'v7')],
    ['linux/arm/v6', linux('arm', 'v7')],
    ['linux/amd64', linux('amd64', 'v3')],
    ['linux/arm64', linux('arm64', 'v8.2')],
    ['linux/s390x', linux('ppc64le')],
    ['linux/amd64', linux('unknown')],
  ] as const)('does not fit a box for %s: %o', ([box, image]) => {
    expect(fitsBox(image, parsePlatform(box))).toBe(false)
  })

  test.for([
    ['linux/amd64', linux('amd64')],
    ['linux/amd64', linux('x86_64')],
    ['linux/amd64', { os: 'Linux', architecture: 'AMD64' }],
    ['linux/arm64', linux('aarch64')],
    ['linux/arm64', linux('arm64', 'v8')],
    ['linux/arm64/v8', linux('arm64')],
    ['linux/arm/v7', linux('arm', 'v6')],
    ['linux/arm', linux('armhf')],
    ['linux/amd64/v3', linux('amd64', 'v2')],
    ['linux/riscv64', linux('riscv64', '')],
  ] as const)('fits a box for %s: %o', ([box, image]) => {
    expect(fitsBox(image, parsePlatform(box))).toBe(true)
  })
})

describe('without a platform in the template the box', () => {
  test.for([
    ['x64', 'amd64', 'arm64'],
    ['arm64', 'arm64', 'amd64'],
    ['ia32', '386', 'amd64'],
    ['ppc64', 'ppc64le', 'ppc64'],
    ['s390x', 's390x', 'amd64'],
  ] as const)('has that of its node: %s', ([machine, own, foreign]) => {
    const box = machinePlatform(machine)
    expect(fitsBox(linux(own), box)).toBe(true)
    expect(fitsBox(linux(foreign), box)).toBe(false)
  })

  test('runs any variant of it, since the variant of the node is not known', () => {
    expect(fitsBox(linux('amd64', 'v4'), machinePlatform('x64'))).toBe(true)
    expect(fitsBox(linux('arm', 'v5'), machinePlatform('arm'))).toBe(true)
  })
})

test('a platform is written as in a template', () => {
  expect(formatPlatform(linux('amd64'))).toBe('linux/amd64')
  expect(formatPlatform(linux('amd64', ''))).toBe('linux/amd64')
  expect(formatPlatform(linux('arm', 'v7'))).toBe('linux/arm/v7')
})
