/** Finds out what a role can do: writes a parameter that holds no secret, tries to read it, and asks for the role under a wrong name. */

import type { Random } from '../../lib/ports-clock.ts'
import { SecretText } from '../../lib/secret-text.ts'
import { isOwnedBy } from '../aws/owner-tags.ts'
import { probeName } from '../aws/parameter-name.ts'
import { parseRoleArn } from '../aws/role-arn.ts'
import type { AccountProbes, CallLimits, CloudAccess, ParameterListing, ParameterStore } from '../cloud.ts'
import { isCloudError } from '../cloud-error.ts'
import type { AccountAccess } from './identity.ts'
import type { CloudResult, ProbeResults } from './plan.ts'
import { tryCloud } from './try-cloud.ts'

export type ProbeOptions = {
  cloud: ParameterStore & ParameterListing & AccountProbes
  accounts: Pick<AccountAccess, 'installation' | 'tagsOf'>
  prefix: string
  random: Random
}

const VALUE_BYTES = 16
const DESCRIPTION = 'Written to find out whether Davit can write here; it holds no secret.'

/** In an account that many organizations share, all of them may be before this one: each has its turn within this time. */
const TURNS = { turnMs: 120_000 }

/** What comes after something that failed is not tried. */
export async function probeAccount(
  options: ProbeOptions,
  access: CloudAccess,
  given: CallLimits = {},
): Promise<ProbeResults> {
  const { cloud, prefix } = options
  const limits = { ...TURNS, ...given }
  const identify = await tryCloud(() => cloud.identify(access, limits))
  if (identify.failure || identify.value.account !== parseRoleArn(access.roleArn)?.account)
    return { identify }
  const name = probeName({ prefix, organization: access.organization })
  const put = await putProbe(options, access, { name, limits })
  if (put.failure) return { identify, put }
  const tags = await tryCloud(async () => void (await cloud.tagsOf(access, name, limits)))
  // Nothing is under the probe, so that it is one page however much the account holds.
  const list = await tryCloud(async () => void (await cloud.list(access, { prefix: name, limit: 1 }, limits)))
  const readable = await tryCloud(() => cloud.readable(access, name, limits))
  const otherId = await tryCloud(() => cloud.refusesOtherId(access, limits))
  // What stays is written over by the next probe, and taken by the sweep.
  const remove = await tryCloud(async () => void (await cloud.remove(access, name, limits)))
  return { identify, put, tags, list, readable, otherId, remove }
}

async function putProbe(
  options: ProbeOptions,
  access: CloudAccess,
  { name, limits }: { name: string; limits: CallLimits },
): Promise<CloudResult<true>> {
  const { cloud, accounts, random } = options
  const value = new SecretText(Buffer.from(random.bytes(VALUE_BYTES)).toString('hex'))
  const tags = accounts.tagsOf(access)
  return await tryCloud(async () => {
    try {
      await cloud.create(access, { name, value, description: DESCRIPTION, tags }, limits)
    } catch (error) {
      if (!isCloudError(error, 'ParameterAlreadyExists')) throw error
      const owner = { installation: accounts.installation, organizationUid: access.organizationUid }
      if (!isOwnedBy(await cloud.tagsOf(access, name, limits), owner)) throw error
      await cloud.replace(access, name, value, limits)
    }
    return true as const
  })
}
