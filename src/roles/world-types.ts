import type { Clock, Random } from '../ports/clock.ts'
import type { AccountProbes, ParameterListing, ParameterStore } from '../ports/cloud-accounts.ts'
import type { EventRecorder } from '../ports/event-recorder.ts'
import type { ResourceReader, ResourceWriter, WatchSource } from '../ports/kubernetes.ts'
import type { Logger } from '../ports/log.ts'
import type { Mailer } from '../ports/mailer.ts'
import type {
  BakeMetrics,
  CredentialMetrics,
  DeliveryMetrics,
  LogMetrics,
  MailMetrics,
  RuntimeMetrics,
} from '../ports/metrics.ts'
import type { SchemaValidator } from '../ports/schema-validator.ts'
import type { UrlPolicy } from '../ports/url-guard.ts'
import type { WebhookSender } from '../ports/webhook-sender.ts'

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
