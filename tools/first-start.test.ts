import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  afterNo,
  answerOf,
  describe as describeStart,
  isComplete,
  type Missing,
  reasonNotToAsk,
} from './setup/first-start.mjs'

const NOTHING: Missing = { packages: false, controlPlane: undefined, debianPackages: [] }
const ALL: Missing = {
  packages: true,
  controlPlane: { cache: '/home/me/.cache/davit/control-plane', hasGo: true },
  debianPackages: ['docker-registry', 'apache2-utils', 'skopeo'],
}

describe('the description of a first start', () => {
  it('lists everything with its size, and the time that it takes', () => {
    const lines = describeStart(ALL)
    expect(lines.filter((line) => /^ {2}\S/.test(line)).map((line) => line.slice(2, 21).trim())).toEqual([
      'npm packages',
      'control plane',
      'Debian packages',
    ])
    expect(lines.join('\n').match(/ \d+ MB/g)).toHaveLength(5)
    expect(lines.at(-1)).toBe(
      'Expect 2 to 7 minutes. Later starts install nothing and take about 15 seconds.',
    )
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80)
  })

  it('is the one of the page about the playground', () => {
    const page = readFileSync(new URL('../docs/get-started/playground.md', import.meta.url), 'utf8')
    expect(page).toContain(describeStart(ALL).join('\n'))
  })

  it('has only what is missing', () => {
    const packages = describeStart({ ...NOTHING, packages: true }).join('\n')
    expect(packages).toContain('npm packages')
    expect(packages).not.toMatch(/control plane|Debian/)
    expect(packages).toContain('Expect 1 to 2 minutes.')
    const debian = describeStart({ ...NOTHING, debianPackages: ['skopeo'] }).join('\n')
    expect(debian).toContain('skopeo')
    expect(debian).toContain('The playground does not wait for this.')
  })

  it('says so if the control plane cannot be built', () => {
    const controlPlane = { cache: '/c', hasGo: false }
    const lines = describeStart({ ...NOTHING, controlPlane })
    expect(lines.join('\n')).toContain('Go is not installed')
    expect(lines.at(-1)).toContain('Expect 1 to 2 minutes.')
  })

  it('is not needed if nothing is missing', () => {
    expect(isComplete(NOTHING)).toBe(true)
    expect(isComplete({ ...NOTHING, packages: true })).toBe(false)
    expect(isComplete({ ...NOTHING, debianPackages: ['skopeo'] })).toBe(false)
    expect(isComplete({ ...NOTHING, controlPlane: { cache: '/c', hasGo: true } })).toBe(false)
  })
})

it.each([
  { given: { yes: false, ci: undefined, isTerminal: true }, want: undefined },
  { given: { yes: false, ci: 'false', isTerminal: true }, want: undefined },
  { given: { yes: true, ci: undefined, isTerminal: true }, want: '--yes is set' },
  { given: { yes: false, ci: '1', isTerminal: true }, want: 'CI is set' },
  { given: { yes: false, ci: '', isTerminal: false }, want: 'there is no terminal' },
])('the reason not to ask is $want', ({ given, want }) => {
  expect(reasonNotToAsk(given)).toBe(want)
})

it.each([
  { given: '', want: true },
  { given: ' Y ', want: true },
  { given: 'yes', want: true },
  { given: 'n', want: false },
  { given: 'NO', want: false },
  { given: undefined, want: false },
  { given: 'maybe', want: undefined },
])('the answer $given means $want', ({ given, want }) => {
  expect(answerOf(given)).toBe(want)
})

it('after a no, there are the other ways to start', () => {
  expect(Math.max(...afterNo(ALL).map((line) => line.length))).toBeLessThanOrEqual(80)
  const lines = afterNo(ALL).join('\n')
  expect(lines).toContain('npm start -- --no-bakes')
  expect(lines).toContain('KUBEBUILDER_ASSETS')
  expect(lines).toContain('npm start -- --yes')
  expect(afterNo({ ...NOTHING, packages: true }).join('\n')).not.toMatch(/--no-bakes|KUBEBUILDER_ASSETS/)
})
