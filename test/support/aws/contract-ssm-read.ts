import {
  AddTagsToResourceCommand,
  DescribeParametersCommand,
  GetParameterCommand,
  GetParameterHistoryCommand,
  GetParametersByPathCommand,
  GetParametersCommand,
  ListTagsForResourceCommand,
  type ParameterStringFilter,
  PutParameterCommand,
  RemoveTagsFromResourceCommand,
  type SSMClient,
} from '@aws-sdk/client-ssm'
import { expect } from 'vitest'
import { type ContractBed, type ContractCase, OTHER_ROLE_ARN } from './contract.ts'

async function putAll(
  ssm: SSMClient,
  bed: ContractBed,
  lasts: readonly string[],
  owner = 'davit',
): Promise<void> {
  for (const last of lasts)
    await ssm.send(
      new PutParameterCommand({
        Name: bed.name(last),
        Value: `value of ${last}`,
        Type: 'SecureString',
        Tags: [{ Key: 'owner', Value: owner }],
      }),
    )
}

/** The names of all pages. */
async function listed(ssm: SSMClient, filters: ParameterStringFilter[], pageSize = 50): Promise<string[][]> {
  const pages: string[][] = []
  let token: string | undefined
  do {
    const input = { ParameterFilters: filters, MaxResults: pageSize, ...(token && { NextToken: token }) }
    const { Parameters = [], NextToken } = await ssm.send(new DescribeParametersCommand(input))
    pages.push(Parameters.map(({ Name = '' }) => Name))
    token = NextToken
  } while (token)
  return pages
}

const under = (bed: ContractBed): ParameterStringFilter => ({
  Key: 'Path',
  Option: 'Recursive',
  Values: [bed.path],
})
const tagsOf = (bed: ContractBed, last = 'x') =>
  new ListTagsForResourceCommand({ ResourceType: 'Parameter', ResourceId: bed.name(last) })

export const SSM_READ_CASES: readonly ContractCase[] = [
  {
    name: 'finds no parameter that is not there',
    async run(bed) {
      const get = new GetParameterCommand({ Name: bed.name('x') })
      await expect((await bed.ssm()).send(get)).rejects.toMatchObject({ name: 'ParameterNotFound' })
    },
  },
  {
    name: 'shows nothing of a secret to those who do not decrypt it',
    async run(bed) {
      const ssm = await bed.ssm()
      await putAll(ssm, bed, ['x'])
      const { Parameter } = await ssm.send(new GetParameterCommand({ Name: bed.name('x') }))
      expect(Parameter?.Value).not.toContain('value of x')
    },
  },
  {
    name: 'reads a version by its number',
    async run(bed) {
      const ssm = await bed.ssm()
      await putAll(ssm, bed, ['x'])
      const one = new GetParameterCommand({ Name: `${bed.name('x')}:1`, WithDecryption: true })
      expect((await ssm.send(one)).Parameter).toMatchObject({
        Version: 1,
        Value: 'value of x',
      })
      const two = new GetParameterCommand({ Name: `${bed.name('x')}:2` })
      await expect(ssm.send(two)).rejects.toMatchObject({ name: 'ParameterVersionNotFound' })
    },
  },
  {
    name: 'reads several, and says which are not there',
    async run(bed) {
      const ssm = await bed.ssm()
      await putAll(ssm, bed, ['x', 'y'])
      const Names = ['x', 'y', 'z'].map((last) => bed.name(last))
      const answer = await ssm.send(new GetParametersCommand({ Names, WithDecryption: true }))
      expect(answer.Parameters?.map(({ Value }) => Value).sort()).toEqual(['value of x', 'value of y'])
      expect(answer.InvalidParameters).toEqual([bed.name('z')])
    },
  },
  {
    name: 'keeps what was overwritten in the history',
    async run(bed) {
      const ssm = await bed.ssm()
      await putAll(ssm, bed, ['x'])
      await ssm.send(new PutParameterCommand({ Name: bed.name('x'), Value: 'new', Overwrite: true }))
      const history = new GetParameterHistoryCommand({ Name: bed.name('x'), WithDecryption: true })
      const { Parameters } = await ssm.send(history)
      expect(Parameters?.map(({ Version, Value }) => [Version, Value])).toEqual([
        [1, 'value of x'],
        [2, 'new'],
      ])
    },
  },
  {
    name: 'reads a path, and what is below it if asked',
    async run(bed) {
      const ssm = await bed.ssm()
      await putAll(ssm, bed, ['x', 'deep/y'])
      const names = async (Recursive: boolean) =>
        (await ssm.send(new GetParametersByPathCommand({ Path: bed.path, Recursive }))).Parameters?.map(
          ({ Name }) => Name,
        ).sort()
      expect(await names(false)).toEqual([bed.name('x')])
      expect(await names(true)).toEqual([bed.name('deep/y'), bed.name('x')])
    },
  },
  {
    name: 'lists what is below a path, page by page',
    async run(bed) {
      const ssm = await bed.ssm()
      const lasts = Array.from({ length: 7 }, (_, index) => `p${index}`)
      await putAll(ssm, bed, lasts)
      const pages = await listed(ssm, [under(bed)], 3)
      expect(pages.every((page) => page.length <= 3)).toBe(true)
      expect(pages.flat().sort()).toEqual(lasts.map((last) => bed.name(last)))
    },
  },
  {
    name: 'lists by tag and by name',
    async run(bed) {
      const ssm = await bed.ssm()
      await putAll(ssm, bed, ['x', 'xy'])
      await putAll(ssm, bed, ['z'], 'somebody')
      const tagged = [under(bed), { Key: 'tag:owner', Values: ['davit'] }]
      expect((await listed(ssm, tagged)).flat().sort()).toEqual([bed.name('x'), bed.name('xy')])
      const named = [{ Key: 'Name', Option: 'BeginsWith', Values: [bed.name('x')] }]
      expect((await listed(ssm, named)).flat().sort()).toEqual([bed.name('x'), bed.name('xy')])
    },
  },
  {
    name: 'says of each what it is, but not its value',
    async run(bed) {
      const ssm = await bed.ssm()
      await putAll(ssm, bed, ['x'])
      const { Parameters } = await ssm.send(new DescribeParametersCommand({ ParameterFilters: [under(bed)] }))
      const expected = {
        Name: bed.name('x'),
        Type: 'SecureString',
        Version: 1,
        KeyId: 'alias/aws/ssm',
        Tier: 'Standard',
      }
      expect(Parameters).toMatchObject([expected])
      expect(JSON.stringify(Parameters)).not.toContain('value of x')
    },
  },
  {
    name: 'says who has written it',
    async run(bed) {
      const ssm = await bed.ssm()
      await putAll(ssm, bed, ['x'])
      const { Parameters } = await ssm.send(new DescribeParametersCommand({ ParameterFilters: [under(bed)] }))
      expect(Parameters?.[0]?.LastModifiedUser).toBe(
        'arn:aws:sts::222222222222:assumed-role/davit-writer/davit-acme',
      )
    },
  },
  {
    name: 'refuses pages of more than 50',
    async run(bed) {
      const describe = new DescribeParametersCommand({ MaxResults: 51 })
      await expect((await bed.ssm()).send(describe)).rejects.toMatchObject({ name: 'ValidationException' })
    },
  },
  {
    name: 'refuses a token that it has not given',
    async run(bed) {
      const describe = new DescribeParametersCommand({ NextToken: 'made up' })
      await expect((await bed.ssm()).send(describe)).rejects.toMatchObject({ name: 'InvalidNextToken' })
    },
  },
  {
    name: 'refuses a filter by label',
    async run(bed) {
      const describe = new DescribeParametersCommand({ ParameterFilters: [{ Key: 'Label', Values: ['x'] }] })
      await expect((await bed.ssm()).send(describe)).rejects.toMatchObject({ name: 'InvalidFilterKey' })
    },
  },
  {
    name: 'tags and untags',
    async run(bed) {
      const ssm = await bed.ssm()
      await putAll(ssm, bed, ['x'])
      const resource = { ResourceType: 'Parameter' as const, ResourceId: bed.name('x') }
      await ssm.send(new AddTagsToResourceCommand({ ...resource, Tags: [{ Key: 'more', Value: '1' }] }))
      await ssm.send(new RemoveTagsFromResourceCommand({ ...resource, TagKeys: ['owner'] }))
      expect((await ssm.send(tagsOf(bed))).TagList).toEqual([{ Key: 'more', Value: '1' }])
    },
  },
  {
    name: 'knows no tags of what is not there',
    async run(bed) {
      await expect((await bed.ssm()).send(tagsOf(bed))).rejects.toMatchObject({ name: 'InvalidResourceId' })
    },
  },
  {
    name: 'keeps accounts and regions apart',
    async run(bed) {
      await putAll(await bed.ssm(), bed, ['x'])
      const get = new GetParameterCommand({ Name: bed.name('x') })
      const elsewhere = [
        await bed.ssm({ region: 'us-east-1' }),
        await bed.ssm({ session: { RoleArn: OTHER_ROLE_ARN } }),
      ]
      for (const ssm of elsewhere)
        await expect(ssm.send(get)).rejects.toMatchObject({ name: 'ParameterNotFound' })
    },
  },
]
