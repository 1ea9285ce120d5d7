/** Every state that Davit writes into an object, by the code that decides it: for tests of external readers of states. */

import { type BakeStatus, bakeFailureCode } from '../../../src/apis/bake.ts'
import { boxTemplateKind } from '../../../src/apis/box-template.ts'
import { deliverySegmentKind } from '../../../src/apis/delivery-segment.ts'
import { eventTypeKind } from '../../../src/apis/event-type.ts'
import type { KindDefinition } from '../../../src/apis/meta.ts'
import { outcomeSegmentKind } from '../../../src/apis/outcome-segment.ts'
import {
  CREDENTIAL_STALLS,
  CREDENTIAL_WAITS,
  registryCredentialKind,
} from '../../../src/apis/registry-credential.ts'
import { SETTINGS_STALLS, secretsSettingsKind } from '../../../src/apis/secrets-settings.ts'
import { deliveryState, webhookDeliveryKind } from '../../../src/apis/webhook-delivery.ts'
import { webhookEndpointKind } from '../../../src/apis/webhook-endpoint.ts'
import { webhookEventKind } from '../../../src/apis/webhook-event.ts'
import { type TemplateView, templateFindings } from '../../../src/boxes/controller/conditions.ts'
import { bakeFailure } from '../../../src/boxes/controller/outcome.ts'
import { assessConnection, type ConnectionView } from '../../../src/credentials/accounts/plan.ts'
import { type CredentialView, credentialFindings } from '../../../src/credentials/controller/conditions.ts'
import { type ConditionUpdate, mergeConditions } from '../../../src/kube/status.ts'
import { eventTypeFindings } from '../../../src/webhooks/endpoints/event-type-status.ts'
import { type EndpointFacts, endpointConditions, type Problem } from '../../../src/webhooks/endpoints/plan.ts'
import type { RefusalReason } from '../../../src/webhooks/events/plan.ts'
import { goodTemplate } from '../../contract/samples/box-template.ts'
import { goodEventType } from '../../contract/samples/event-type.ts'
import { goodCredential } from '../../contract/samples/registry-credential.ts'
import { goodSettings } from '../../contract/samples/secrets-settings.ts'
import { goodDeliverySegment, goodOutcomeSegment } from '../../contract/samples/segments.ts'
import { goodDelivery } from '../../contract/samples/webhook-delivery.ts'
import { goodEndpoint } from '../../contract/samples/webhook-endpoint.ts'
import { goodEvent } from '../../contract/samples/webhook-event.ts'

export type Sample = { kind: KindDefinition; good: { name: string; spec: object } }

export const SAMPLES: readonly Sample[] = [
  { kind: webhookEndpointKind, good: goodEndpoint },
  { kind: webhookEventKind, good: goodEvent },
  { kind: registryCredentialKind, good: goodCredential },
  { kind: secretsSettingsKind, good: goodSettings },
  { kind: boxTemplateKind, good: goodTemplate },
  { kind: webhookDeliveryKind, good: goodDelivery },
  { kind: eventTypeKind, good: goodEventType },
  { kind: deliverySegmentKind, good: goodDeliverySegment },
  { kind: outcomeSegmentKind, good: goodOutcomeSegment },
]

const AT = '2026-01-31T12:00:00.000Z'
const WORDS = 'What is wrong, and what to do.'

/** Statuses that Davit writes for objects of a kind with a spec of that generation. */
export function statusesOf(kind: KindDefinition, generation: number): object[] {
  const findings = FINDINGS[kind.kind]?.()
  if (findings)
    return findings.map((each) => ({
      observedGeneration: generation,
      conditions: mergeConditions([], each, { now: Date.parse(AT), generation }),
    }))
  return kind === webhookDeliveryKind ? deliveryState.options.map((state) => ({ state })) : []
}

const FINDINGS: Readonly<Record<string, () => ConditionUpdate[][]>> = {
  WebhookEndpoint: endpointStates,
  WebhookEvent: eventStates,
  RegistryCredential: credentialStates,
  SecretsSettings: settingsStates,
  BoxTemplate: templateStates,
  EventType: () => [
    eventTypeFindings('a.b', undefined),
    eventTypeFindings('a.b', 'older'),
    eventTypeFindings('a.b', undefined, WORDS),
  ],
}

const PROBLEMS: Readonly<Record<Problem['reason'], true>> = {
  NotAnOrganization: true,
  UrlNotAllowed: true,
  SigningSecretsUnreadable: true,
  CannotWriteSigningSecret: true,
  CannotStoreDelivery: true,
  UnknownEventTypes: true,
}

function endpointStates(): ConditionUpdate[][] {
  const enabled = { state: 'enabled' } as EndpointFacts['decision']
  const disabled = (reason: string) =>
    ({ state: 'disabled', disabledReason: reason }) as EndpointFacts['decision']
  const facts: EndpointFacts = {
    endpoint: { namespace: 'acme', name: 'billing' },
    decision: enabled,
    keysReady: true,
    problems: [],
    consecutiveFailures: 0,
  }
  const problems = Object.keys(PROBLEMS) as Problem['reason'][]
  const views: EndpointFacts[] = [
    facts,
    { ...facts, keysReady: false },
    { ...facts, consecutiveFailures: 3 },
    { ...facts, decision: disabled('Requested') },
    { ...facts, decision: disabled('ConsecutiveFailures'), consecutiveFailures: 5 },
    ...problems.map((reason) => ({ ...facts, problems: [{ reason, message: WORDS }] })),
  ]
  return views.map(endpointConditions)
}

const REFUSALS: Readonly<Record<RefusalReason, true>> = {
  Reserved: true,
  UnknownType: true,
  DataRequired: true,
  DataAmbiguous: true,
  NotJson: true,
  InvalidData: true,
  TooLarge: true,
  InTheFuture: true,
  SchemaMismatch: true,
  SchemaInvalid: true,
  NotAnOrganization: true,
  Unreadable: true,
}

/** As in `reconcile-events.ts`. */
function eventStates(): ConditionUpdate[][] {
  const taken = ['Accepted', 'NoSubscribers'].map((reason): ConditionUpdate[] => [
    { type: 'Ready', status: 'True', reason, message: WORDS },
  ])
  const refused = Object.keys(REFUSALS).map((reason): ConditionUpdate[] => [
    { type: 'Ready', status: 'False', reason, message: WORDS },
    { type: 'Stalled', status: 'True', reason, message: WORDS },
  ])
  return [...taken, ...refused]
}

function credentialStates(): ConditionUpdate[][] {
  const stored = { name: '/davit/acme/rc_a', version: 1, region: 'eu-west-1', account: '1', roleArn: 'r' }
  const verified = { status: 'Unknown', reason: 'NotChecked', message: WORDS } as const
  const token = { type: 'token', verified, listing: { state: 'unknown' } } as const
  const views: CredentialView[] = [
    { ...token, stored, step: { step: 'nothing', reason: WORDS } },
    { ...token, type: 'ecr', step: { step: 'nothing', reason: WORDS } },
    { ...token, step: { step: 'add-finalizer', reason: WORDS } },
    { ...token, stored, pending: true, step: { step: 'refuse', reason: 'InvalidSecret', message: WORDS } },
    ...CREDENTIAL_STALLS.map(
      (reason): CredentialView => ({ ...token, step: { step: 'refuse', reason, message: WORDS } }),
    ),
    ...CREDENTIAL_WAITS.map(
      (reason): CredentialView => ({ ...token, step: { step: 'wait', reason, message: WORDS } }),
    ),
  ]
  return views.map(credentialFindings)
}

function settingsStates(): ConditionUpdate[][] {
  const view: ConnectionView = {
    roleArn: goodSettings.spec.roleArn,
    externalId: 'x',
    requireWriteOnly: false,
  }
  const account = /::(\d+):/.exec(String(goodSettings.spec.roleArn))?.[1] ?? ''
  const well = {
    identify: { value: { account, arn: 'a' } },
    put: { value: true as const },
    readable: { value: { operations: [] } },
    otherId: { value: { refused: true } },
  }
  const failure = { remedy: 'retry', code: 'Timeout', message: WORDS, operation: 'ssm:PutParameter' } as const
  const views: ConnectionView[] = [
    { ...view, results: well },
    view,
    { ...view, results: { identify: { failure } } },
    ...SETTINGS_STALLS.map((reason): ConnectionView => ({ ...view, problem: { reason, message: WORDS } })),
  ]
  return views.map((each) => assessConnection(each).findings)
}

function templateStates(): ConditionUpdate[][] {
  const current = { status: 'True', reason: 'UpToDate', message: WORDS } as const
  const bake = (more: Partial<BakeStatus>) => ({ number: 1, attempts: 1, ...more }) as BakeStatus
  const view: TemplateView = { bake: undefined, problem: undefined, isDue: false, current }
  const failed = bakeFailureCode.options.map((code) =>
    bake({ state: 'failed', failure: bakeFailure({ step: 'pull', code, message: WORDS }) }),
  )
  const [first] = failed
  const views: TemplateView[] = [
    { ...view, bake: bake({ state: 'succeeded' }) },
    view,
    { ...view, isDue: true, waitsFor: 'two bakes are under way' },
    { ...view, bake: bake({ state: 'pending' }) },
    { ...view, bake: bake({ state: 'running' }) },
    { ...view, bake: { ...first, nextAttemptAt: AT } as BakeStatus },
    { ...view, problem: { code: 'credential_not_ready', message: WORDS, waits: true } },
    ...failed.map((each) => ({ ...view, bake: each })),
  ]
  return views.map(templateFindings)
}
