/** Source: SSM API Reference, AddTagsToResource, RemoveTagsFromResource, ListTagsForResource. */

import { z } from 'zod'
import type { Parameter } from '../account.ts'
import { AwsError, NotInTheDouble } from '../aws-error.ts'
import { type Call, operation } from '../call.ts'
import { authorizeParameter, requestTags, storeOf } from './parameter-access.ts'
import { tagInput, withTags } from './tag-rules.ts'

const resource = { ResourceType: z.string(), ResourceId: z.string().trim().min(1) }
/** Other resource types of Systems Manager with tags. */
const OTHER_TYPES = [
  'Association',
  'Automation',
  'Document',
  'MaintenanceWindow',
  'ManagedInstance',
  'OpsItem',
  'OpsMetadata',
  'PatchBaseline',
]

export const addTagsToResource = operation('AddTagsToResource', {
  family: 'tags',
  input: z.strictObject({ ...resource, Tags: z.array(tagInput).max(1_000) }),
  run(call, { ResourceType, ResourceId, Tags }) {
    checkType(ResourceType)
    authorizeParameter(call, 'ssm:AddTagsToResource', ResourceId, requestTags(Tags))
    const parameter = tagged(call, ResourceId)
    storeOf(call).put({ ...parameter, tags: withTags(parameter.tags, Tags) }, call.now)
    return {}
  },
})

export const removeTagsFromResource = operation('RemoveTagsFromResource', {
  family: 'tags',
  input: z.strictObject({ ...resource, TagKeys: z.array(z.string().min(1).max(128)) }),
  run(call, { ResourceType, ResourceId, TagKeys }) {
    checkType(ResourceType)
    authorizeParameter(call, 'ssm:RemoveTagsFromResource', ResourceId, {
      'aws:TagKeys': TagKeys.length > 0 ? TagKeys : undefined,
    })
    const parameter = tagged(call, ResourceId)
    const tags = new Map([...parameter.tags].filter(([key]) => !TagKeys.includes(key)))
    storeOf(call).put({ ...parameter, tags }, call.now)
    return {}
  },
})

export const listTagsForResource = operation('ListTagsForResource', {
  family: 'tags',
  input: z.strictObject(resource),
  run(call, { ResourceType, ResourceId }) {
    checkType(ResourceType)
    authorizeParameter(call, 'ssm:ListTagsForResource', ResourceId)
    return { TagList: [...tagged(call, ResourceId).tags].map(([Key, Value]) => ({ Key, Value })) }
  },
})

function checkType(type: string): void {
  if (type === 'Parameter') return
  if (OTHER_TYPES.includes(type)) throw new NotInTheDouble(`tags of a ${type}`)
  throw AwsError.coded('InvalidResourceType', 'The resource type is not valid.')
}

function tagged(call: Call, name: string): Parameter {
  const parameter = storeOf(call).get(name)
  if (!parameter)
    throw AwsError.coded(
      'InvalidResourceId',
      'The resource ID is not valid. Verify that you entered the correct ID and try again.',
    )
  return parameter
}
