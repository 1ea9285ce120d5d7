/** docs/openapi.json: what `davit api` serves at /openapi.json. */
import { openApiDocument } from '../../rest/openapi.ts'
import { type WebhookServices, webhookRoutes } from '../../rest/routes/webhook-routes.ts'
import { VERSION } from '../../roles/version.ts'
import type { Output } from '../generated-file.ts'

/** The document is about the declarations of routes; nobody calls what stands behind them here. */
const NO_SERVICES = {} as WebhookServices

export const openApi: Output = {
  owns: [],
  files() {
    const document = openApiDocument(webhookRoutes(NO_SERVICES), VERSION)
    return [{ path: 'docs/openapi.json', content: `${JSON.stringify(document, undefined, 2)}\n` }]
  },
}
