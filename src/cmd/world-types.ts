import type { AccountProbes, ParameterListing, ParameterStore } from '../credentials/cloud.ts'
import type { ResourceReader, ResourceWriter, WatchSource } from '../kube/client.ts'
import type { EventRecorder } from '../kube/event-recorder.ts'
import type { Mailer } from '../lib/mailer.ts'
import type {
  BakeMetrics,
  CredentialMetrics,
  DeliveryMetrics,
  LogMetrics,
  MailMetrics,
  RuntimeMetrics,
} from '../lib/metrics.ts'
import type { Clock, Random } from '../lib/ports-clock.ts'
import type { Logger } from '../lib/ports-log.ts'
import type { SchemaValidator } from '../lib/schema-validator.ts'
import type { UrlPolicy } from '../net/url-guard.ts'
import type { WebhookSender } from '../webhooks/sender/webhook-sender.ts'

/** What the world provides. */
export type ControllerDependencies = {
  api: ResourceReader & ResourceWriter & WatchSource
  clock: Clock
  random: Random
  log: Logger
  metrics: DeliveryMetrics & LogMetrics & RuntimeMetrics & CredentialMetrics & BakeMetrics & MailMetrics
  /** The accounts of organizations. */
  cloud: ParameterStore & ParameterListing & AccountProbes
  sender: WebhookSender
  urlGuard: UrlPolicy
  events: EventRecorder
  validator: SchemaValidator
  mailer?: Mailer | undefined
}
