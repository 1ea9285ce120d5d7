import { fileURLToPath } from 'node:url'
import { Router } from 'express'
import { reply } from './exchange.ts'
import { openApiDocument } from './openapi.ts'
import type { Route } from './route.ts'

/** Everything that the page loads comes from here, and it talks to nobody else. */
const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Davit</title>
<link rel="icon" type="image/png" href="docs/favicon-32x32.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="page"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`

/** The key that is entered is forgotten with the page. */
const START = `window.ui = SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#page',
  deepLinking: true,
  persistAuthorization: false,
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: true,
})
`

/** As packages of Node they are found wherever they were installed. */
const ASSETS = {
  'swagger-ui.css': import.meta.resolve('swagger-ui-dist/swagger-ui.css'),
  'swagger-ui-bundle.js': import.meta.resolve('swagger-ui-dist/swagger-ui-bundle.js'),
  'favicon-32x32.png': import.meta.resolve('swagger-ui-dist/favicon-32x32.png'),
}

const HEADERS = {
  'content-security-policy': PAGE_POLICY,
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-cache',
}

/** What needs no key: `/openapi.json`, and `/docs`, where it can be read and tried. */
export function openPages(routes: readonly Route[], version: string): Router {
  const document = JSON.stringify(openApiDocument(routes, version))
  const router = Router({ caseSensitive: true, strict: true })
  const text = (path: string, contentType: string, body: string) =>
    router.get(path, (request, response) =>
      reply(request, response, { status: 200, contentType, body, headers: HEADERS }),
    )
  text('/openapi.json', 'application/json', document)
  text('/docs', 'text/html; charset=utf-8', PAGE)
  text('/docs/start.js', 'text/javascript; charset=utf-8', START)
  for (const [name, url] of Object.entries(ASSETS)) {
    router.get(`/docs/${name}`, (_request, response, next) => {
      response.set({ 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' })
      // Below a root, so that a dot in the path of the installation does not hide the file.
      const root = fileURLToPath(new URL('.', url))
      response.sendFile(name, { root, maxAge: '1h' }, (error) => (error ? next(error) : undefined))
    })
  }
  return router
}
