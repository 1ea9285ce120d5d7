/**
 * Identifiers: a prefix and the object's name, both ways, with no look-up (interface, "Conventions").
 * `whe_billing` is the WebhookEndpoint `billing`.
 */
export const ENDPOINT_PREFIX = 'whe_'
export const MESSAGE_PREFIX = 'msg_'
export const SECRET_PREFIX = 'whsec_'
export const CREDENTIAL_PREFIX = 'rc_'

/** The 26 characters of a `msg_` id: lower-case Crockford base32, inverted time first. */
export const MESSAGE_ID = /^msg_[0-9abcdefghjkmnpqrstvwxyz]{26}$/

/** A type of event, which is the name of its EventType: letters, digits and dashes in parts between dots. */
export const EVENT_TYPE = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/
export const MAX_EVENT_TYPE = 128
/** What `EVENT_TYPE` allows, in words. */
export const EVENT_TYPE_ALLOWED =
  'an event type such as environment.started: lower-case letters, digits and dashes in parts separated by dots'
