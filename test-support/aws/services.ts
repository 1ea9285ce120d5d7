import type { IncomingHttpHeaders } from 'node:http'
import type { Operation } from './call.ts'
import { getAuthorizationToken } from './ecr/get-authorization-token.ts'
import { jsonProtocol } from './json-protocol.ts'
import { describeKey } from './kms/describe-key.ts'
import type { Protocol } from './protocol.ts'
import { queryProtocol } from './query-protocol.ts'
import { deleteParameter, deleteParameters } from './ssm/delete-parameters.ts'
import { describeParameters } from './ssm/describe-parameters.ts'
import { getParameterHistory } from './ssm/get-parameter-history.ts'
import { getParameter, getParameters } from './ssm/get-parameters.ts'
import { getParametersByPath } from './ssm/get-parameters-by-path.ts'
import { labelParameterVersion } from './ssm/label-parameter-version.ts'
import { putParameter } from './ssm/put-parameter.ts'
import { addTagsToResource, listTagsForResource, removeTagsFromResource } from './ssm/resource-tags.ts'
import { assumeRole } from './sts/assume-role.ts'
import { assumeRoleWithWebIdentity } from './sts/assume-role-with-web-identity.ts'
import { getCallerIdentity } from './sts/get-caller-identity.ts'

export type Service = { protocol: Protocol; operations: ReadonlyMap<string, Operation> }

const STS_VERSION = { version: '2011-06-15', namespace: 'https://sts.amazonaws.com/doc/2011-06-15/' }

/** By the service name in the scope of signatures. */
const SERVICES: Readonly<Record<ServiceName, Service>> = {
  ecr: service(jsonProtocol('AmazonEC2ContainerRegistry_V20150921'), [getAuthorizationToken]),
  kms: service(jsonProtocol('TrentService'), [describeKey]),
  ssm: service(jsonProtocol('AmazonSSM'), [
    addTagsToResource,
    deleteParameter,
    deleteParameters,
    describeParameters,
    getParameter,
    getParameterHistory,
    getParameters,
    getParametersByPath,
    labelParameterVersion,
    listTagsForResource,
    putParameter,
    removeTagsFromResource,
  ]),
  sts: service(queryProtocol(STS_VERSION), [assumeRole, assumeRoleWithWebIdentity, getCallerIdentity]),
}

type ServiceName = 'ecr' | 'kms' | 'ssm' | 'sts'

const TARGETS: Readonly<Record<string, ServiceName>> = {
  AmazonEC2ContainerRegistry_V20150921: 'ecr',
  AmazonSSM: 'ssm',
  TrentService: 'kms',
}

/** The form of a request determines its service; its signature must be for the same one. */
export function serviceFor(headers: IncomingHttpHeaders): { name: string; service: Service } {
  const target = String(headers['x-amz-target'] ?? '')
  const name = TARGETS[target.slice(0, target.lastIndexOf('.'))] ?? 'sts'
  return { name, service: SERVICES[name] }
}

function service(protocol: Protocol, operations: readonly Operation[]): Service {
  return { protocol, operations: new Map(operations.map((one) => [one.name, one])) }
}
