/** Secrets that cannot be read, and a disk that is full: nothing of such a bake is left. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { BOX_POLICY } from '../support/bake/bake-bed.ts'
import { expectFailure, type FailureRow } from '../support/bake/expect-failure.ts'
import { FailureBed } from '../support/bake/failure-bed.ts'

let bed: FailureBed
beforeAll(async () => {
  bed = await FailureBed.start()
})
afterEach(() => bed.renew())
afterAll(() => bed?.stop())

const SECRETS: readonly FailureRow[] = [
  {
    name: 'that is not there',
    given: () => ({
      credential: { parameter: { ...bed.parameters.good, name: '/davit/acme/rc_missing' } },
    }),
    want: {
      step: 'read-secret',
      code: 'secret_unreadable',
      message: /^ssm:GetParameter ParameterNotFound: version 1 of \/davit\/acme\/rc_missing$/,
      verified: false,
    },
  },
  {
    name: 'whose version is gone',
    given: () => ({ credential: { parameter: { ...bed.parameters.good, version: 9 } } }),
    want: {
      step: 'read-secret',
      code: 'secret_unreadable',
      message: /^ssm:GetParameter ParameterVersionNotFound/,
      verified: false,
    },
  },
  {
    name: 'that the role may not read',
    given: () => {
      const { account, role } = bed.bed
      const [, ...others] = BOX_POLICY.Statement
      account.changeRole(role, { policies: { box: { ...BOX_POLICY, Statement: others } } })
      return {}
    },
    want: {
      step: 'read-secret',
      code: 'secret_unreadable',
      message: /AccessDeniedException: .*is not authorized to perform: ssm:GetParameter/,
      verified: false,
    },
  },
  {
    name: 'with an identity that the role does not trust',
    given: () => {
      bed.bed.role.trust = []
      return {}
    },
    want: {
      step: 'read-secret',
      code: 'secret_unreadable',
      message: /^sts:AssumeRoleWithWebIdentity AccessDenied/,
      verified: false,
    },
  },
]

describe('a bake fails on a secret', () => {
  for (const row of SECRETS) {
    it(`${row.name}: ${row.want.code}`, async () => {
      await expectFailure(bed, row)
      // An image that cannot be pulled prompts no request.
      expect(bed.registries.basic.front.requests).toEqual([])
    })
  }
})

describe('a bake on a disk that is full', () => {
  /** A disk of its own, for this bake alone, which lists what is on it at the end. Needs no root where people may have namespaces. */
  const onSmallDisk = (options: string) => [
    'unshare',
    '--map-root-user',
    '--mount',
    'sh',
    '-c',
    `mount -t tmpfs -o ${options} none "$1" || exit 99
    disk=$1; list=$2; shift 2
    "$@"; code=$?
    find "$disk" -mindepth 1 > "$list"
    exit $code`,
    'sh',
    bed.pod.output,
    join(bed.pod.folder, 'left'),
  ]
  const left = () =>
    readFileSync(join(bed.pod.folder, 'left'), 'utf8')
      .split('\n')
      .filter((path) => path !== '')
      .map((path) => path.slice(bed.pod.output.length))

  it('fails, and leaves nothing on it', async () => {
    await expectFailure(bed, {
      name: 'a disk that is full',
      given: () => ({ image: 'acme/large:1.0', within: onSmallDisk('size=2m') }),
      want: { step: 'store', code: 'out_of_disk', message: /no space left on device/, verified: true },
    })
    expect(left()).toEqual(['/.davit', '/.davit/shop'])
  })

  it('is a box where the image has room', async () => {
    const { result, log } = await bed.bake({ within: onSmallDisk('size=2m') })
    expect(result?.state, log).toBe('succeeded')
    expect(left()).toContain('/shop')
  })

  it('fails also where there is no room for a folder', async () => {
    const within = onSmallDisk('size=2m,nr_inodes=3')
    expect(await bed.failure({ within })).toMatchObject({ code: 'out_of_disk', step: 'store' })
  })
})
