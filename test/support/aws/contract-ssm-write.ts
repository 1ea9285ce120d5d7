import {
  DeleteParameterCommand,
  DeleteParametersCommand,
  GetParameterCommand,
  GetParameterHistoryCommand,
  LabelParameterVersionCommand,
  PutParameterCommand,
  type PutParameterCommandInput,
  type SSMClient,
} from '@aws-sdk/client-ssm'
import { expect } from 'vitest'
import type { ContractBed, ContractCase } from './contract.ts'

const KEPT_VERSIONS = 100
/** Depths are counted from the path of the case, which has two levels. */
const LEVELS = (count: number, path: string) => path + '/l'.repeat(count - path.split('/').length + 1)

function put(bed: ContractBed, given: Partial<PutParameterCommandInput> = {}): PutParameterCommand {
  return new PutParameterCommand({
    Name: bed.name('x'),
    Value: 'hunter2',
    Type: 'SecureString',
    Tier: 'Standard',
    ...given,
  })
}

/** Expects a rejection with this name, and fails if the target accepts the request. */
function refuses(
  name: string,
  given: (bed: ContractBed) => Partial<PutParameterCommandInput>,
  error: string,
): ContractCase {
  return {
    name: `refuses ${name}`,
    async run(bed) {
      await expect((await bed.ssm()).send(put(bed, given(bed)))).rejects.toMatchObject({ name: error })
    },
  }
}

async function putTimes(ssm: SSMClient, bed: ContractBed, count: number): Promise<void> {
  for (let time = 0; time < count; time += 1)
    await ssm.send(put(bed, { Overwrite: true, Value: `value ${time}` }))
}

export const SSM_WRITE_CASES: readonly ContractCase[] = [
  {
    name: 'keeps a secret and counts its versions',
    async run(bed) {
      const ssm = await bed.ssm()
      expect(await ssm.send(put(bed))).toMatchObject({ Version: 1, Tier: 'Standard' })
      expect(await ssm.send(put(bed, { Value: 'hunter3', Overwrite: true }))).toMatchObject({ Version: 2 })
      const get = new GetParameterCommand({ Name: bed.name('x'), WithDecryption: true })
      expect((await ssm.send(get)).Parameter).toMatchObject({
        Value: 'hunter3',
        Version: 2,
        Type: 'SecureString',
      })
    },
  },
  {
    name: 'writes over nothing by itself',
    async run(bed) {
      const ssm = await bed.ssm()
      await ssm.send(put(bed))
      await expect(ssm.send(put(bed))).rejects.toMatchObject({ name: 'ParameterAlreadyExists' })
    },
  },
  refuses(
    'tags with an overwrite',
    () => ({ Overwrite: true, Tags: [{ Key: 'a', Value: 'b' }] }),
    'ValidationException',
  ),
  refuses('a value that is empty', () => ({ Value: '' }), 'ValidationException'),
  refuses('a value in double braces', () => ({ Value: 'a{{ssm:b}}' }), 'ValidationException'),
  refuses('a standard value over 4 KB', () => ({ Value: 'x'.repeat(4_097) }), 'ValidationException'),
  refuses('a name of AWS', () => ({ Name: '/aws/x' }), 'AccessDeniedException'),
  refuses('a name that begins like SSM', () => ({ Name: '/SSM-x/y' }), 'ValidationException'),
  refuses('a name with a space', ({ path }) => ({ Name: `${path}/a b` }), 'ValidationException'),
  refuses('a name with other characters', ({ path }) => ({ Name: `${path}/ä` }), 'ValidationException'),
  refuses('a path without its slash', ({ path }) => ({ Name: `${path.slice(1)}/x` }), 'ValidationException'),
  refuses(
    'more than 15 levels',
    ({ path }) => ({ Name: LEVELS(16, path) }),
    'HierarchyLevelLimitExceededException',
  ),
  refuses(
    'a name that is too long with its ARN',
    ({ path }) => ({ Name: `${path}/${'x'.repeat(1_000)}` }),
    'ValidationException',
  ),
  refuses('a key that is not there', () => ({ KeyId: 'alias/not-there' }), 'InvalidKeyId'),
  refuses('a key for plain text', () => ({ Type: 'String', KeyId: 'alias/aws/ssm' }), 'ValidationException'),
  refuses('a new parameter without its type', () => ({ Type: undefined }), 'ValidationException'),
  {
    name: 'takes 4 KB and 15 levels',
    async run(bed) {
      const ssm = await bed.ssm()
      expect(await ssm.send(put(bed, { Value: 'x'.repeat(4_096) }))).toMatchObject({ Version: 1 })
      expect(await ssm.send(put(bed, { Name: LEVELS(15, bed.path) }))).toMatchObject({ Version: 1 })
    },
  },
  {
    name: 'lets plain text not become a secret',
    async run(bed) {
      const ssm = await bed.ssm()
      await ssm.send(put(bed, { Type: 'String' }))
      await expect(ssm.send(put(bed, { Overwrite: true }))).rejects.toMatchObject({
        name: 'HierarchyTypeMismatchException',
      })
    },
  },
  {
    name: 'deletes, and says what was not there',
    async run(bed) {
      const ssm = await bed.ssm()
      await ssm.send(put(bed))
      await ssm.send(new DeleteParameterCommand({ Name: bed.name('x') }))
      const again = new DeleteParameterCommand({ Name: bed.name('x') })
      await expect(ssm.send(again)).rejects.toMatchObject({ name: 'ParameterNotFound' })
      await ssm.send(put(bed))
      const many = new DeleteParametersCommand({ Names: [bed.name('x'), bed.name('y')] })
      expect(await ssm.send(many)).toMatchObject({
        DeletedParameters: [bed.name('x')],
        InvalidParameters: [bed.name('y')],
      })
    },
  },
  {
    name: 'keeps 100 versions and drops the oldest',
    async run(bed) {
      const ssm = await bed.ssm()
      await putTimes(ssm, bed, KEPT_VERSIONS + 1)
      const history = new GetParameterHistoryCommand({ Name: bed.name('x'), MaxResults: 50 })
      expect((await ssm.send(history)).Parameters?.[0]?.Version).toBe(2)
    },
  },
  {
    name: 'drops no version that has a label',
    async run(bed) {
      const ssm = await bed.ssm()
      await putTimes(ssm, bed, KEPT_VERSIONS)
      const label = { Name: bed.name('x'), ParameterVersion: 1, Labels: ['in-use'] }
      await ssm.send(new LabelParameterVersionCommand(label))
      await expect(putTimes(ssm, bed, 1)).rejects.toMatchObject({ name: 'ParameterMaxVersionLimitExceeded' })
    },
  },
]
