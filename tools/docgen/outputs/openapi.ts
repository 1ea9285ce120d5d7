/** docs/reference/openapi.json: what `davit api` serves at /openapi.json. */

import { VERSION } from '../../../src/lib/version.ts'
import { openApiDocument } from '../../../src/server/http/openapi.ts'
import { allRoutes, type RouteServices } from '../../../src/server/routes.ts'
import type { Output } from '../generated-file.ts'

/** The document needs only the route declarations; their services are never called here. */
const NO_SERVICES = {} as RouteServices

export const openApi: Output = {
  owns: [],
  files() {
    const document = openApiDocument(allRoutes(NO_SERVICES), VERSION)
    return [{ path: 'docs/reference/openapi.json', content: `${JSON.stringify(document, undefined, 2)}\n` }]
  },
}
