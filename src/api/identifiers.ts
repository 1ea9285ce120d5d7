/**
 * Identifiers: a prefix and the object's name, both ways, with no look-up (interface, "Conventions").
 * `whe_billing` is the WebhookEndpoint `billing`.
 */
export const ENDPOINT_PREFIX = 'whe_'
export const MESSAGE_PREFIX = 'msg_'
export const SECRET_PREFIX = 'whsec_'

/** The 26 characters of a `msg_` id: lower-case Crockford base32, inverted time first. */
export const MESSAGE_ID = /^msg_[0-9abcdefghjkmnpqrstvwxyz]{26}$/
