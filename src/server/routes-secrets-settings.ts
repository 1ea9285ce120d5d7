/** Secrets settings (interface §2.6, §4.1). */

import { MANAGE_SETTINGS } from './http/permission.ts'
import { type Route, route } from './http/route.ts'
import type { OrganizationSettings, TaggedSettings } from './ports-secrets-settings.ts'
import { settings, settingsDraftSchema } from './settings-schemas.ts'

const TAG = 'Secrets settings'
const PATH = '/secrets-settings'
const ETAG = { ETag: 'Of the settings as they are now, for If-Match; none while there are no settings.' }

export function settingsRoutes(settings: OrganizationSettings): Route[] {
  return [getRoute(settings), putRoute(settings)]
}

function getRoute(service: OrganizationSettings): Route {
  return route({
    id: 'getSettings',
    method: 'get',
    path: PATH,
    tag: TAG,
    summary: 'Read the secrets settings',
    description:
      'Before there are any, it shows the external id and the prefix alone. Settings with a region and no role have the policies that the role is to be made with.',
    permission: MANAGE_SETTINGS,
    success: { status: 200, description: 'The settings.', body: settings, headers: ETAG },
    problems: ['unreadable'],
    async handle({ organization }) {
      return replyOf(await service.get(organization))
    },
  })
}

function putRoute(service: OrganizationSettings): Route {
  return route({
    id: 'putSettings',
    method: 'put',
    path: PATH,
    tag: TAG,
    summary: 'Connect a cloud account',
    description:
      'Replaces the settings: what is left out is taken away. Davit tries the account, for up to ten seconds of this request, and `conditions` say what came of it. With another account or region, secrets that are stored have to be given again.',
    permission: MANAGE_SETTINGS,
    body: settingsDraftSchema,
    success: {
      status: 200,
      description: 'The settings, connected or not.',
      body: settings,
      headers: ETAG,
    },
    problems: ['managed_elsewhere', 'precondition_failed', 'unreadable'],
    conditional: true,
    async handle({ organization, body, ifMatch }) {
      return replyOf(await service.put(organization, body, { ifMatch }))
    },
  })
}

function replyOf({ settings, etag }: TaggedSettings) {
  return { body: settings, headers: etag === undefined ? {} : { etag } }
}
