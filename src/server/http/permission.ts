/** What a route needs: a right of Kubernetes in the organization's namespace, so that RBAC is the only authority. */
export type Permission = {
  verb: 'get' | 'create' | 'update'
  /** Of the group davit.dev. */
  resource: 'webhookendpoints' | 'webhookevents' | 'registrycredentials' | 'secretssettings'
  subresource?: 'ping' | 'secret' | 'redeliver'
}

/** Reads of endpoints, their log and the event types included: all of it is the owners' (interface §4.2, §5.3). */
export const MANAGE_WEBHOOKS: Permission = { verb: 'update', resource: 'webhookendpoints' }
export const PING: Permission = { verb: 'create', resource: 'webhookendpoints', subresource: 'ping' }
export const ROLL: Permission = { verb: 'create', resource: 'webhookendpoints', subresource: 'secret' }
export const REDELIVER: Permission = {
  verb: 'create',
  resource: 'webhookendpoints',
  subresource: 'redeliver',
}
export const PUBLISH: Permission = { verb: 'create', resource: 'webhookevents' }
/** `settings:write`, reads included (interface §4.1, §5.2). */
export const MANAGE_CREDENTIALS: Permission = { verb: 'update', resource: 'registrycredentials' }
export const MANAGE_SETTINGS: Permission = { verb: 'update', resource: 'secretssettings' }

/** Who may do one of these can see that the organization exists; for everybody else there is nothing. */
export const VISIBILITY: readonly Permission[] = [
  { verb: 'get', resource: 'webhookendpoints' },
  { verb: 'get', resource: 'registrycredentials' },
  PUBLISH,
]
