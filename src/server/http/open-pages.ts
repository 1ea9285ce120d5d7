import { readFileSync } from 'node:fs'
import { Router } from 'express'
import type { HttpResponse } from './answer.ts'
import { reply } from './context.ts'
import { openApiDocument } from './openapi.ts'
import { Problem } from './problems.ts'
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
const ASSETS = [
  {
    name: 'swagger-ui.css',
    url: import.meta.resolve('swagger-ui-dist/swagger-ui.css'),
    contentType: 'text/css; charset=utf-8',
  },
  {
    name: 'swagger-ui-bundle.js',
    url: import.meta.resolve('swagger-ui-dist/swagger-ui-bundle.js'),
    contentType: 'text/javascript; charset=utf-8',
  },
  {
    name: 'favicon-32x32.png',
    url: import.meta.resolve('swagger-ui-dist/favicon-32x32.png'),
    contentType: 'image/png',
  },
]

const HEADERS = {
  'content-security-policy': PAGE_POLICY,
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-cache',
}

/** Others than the pages, they change with a version of Davit only. */
const ASSET_HEADERS = { 'referrer-policy': 'no-referrer', 'cache-control': 'public, max-age=3600' }

/**
 * What needs no key: `/openapi.json`, and `/docs`, where it can be read and tried. All of it is held in memory, so that
 * nobody can hold a file open, and there is no condition or range that could fail.
 */
export function openPages(routes: readonly Route[], version: string): Router {
  const router = Router({ caseSensitive: true, strict: true })
  const page = (path: string, answer: Omit<HttpResponse, 'status'>) =>
    router
      .route(path)
      .get((request, response) => reply(request, response, { status: 200, headers: HEADERS, ...answer }))
      .all(() => {
        throw new Problem('method_not_allowed', { headers: { allow: 'GET, HEAD' } })
      })
  const document = JSON.stringify(openApiDocument(routes, version))
  page('/openapi.json', { contentType: 'application/json', body: document })
  page('/docs', { contentType: 'text/html; charset=utf-8', body: PAGE })
  page('/docs/start.js', { contentType: 'text/javascript; charset=utf-8', body: START })
  for (const { name, url, contentType } of ASSETS) {
    const body = readFileSync(new URL(url))
    page(`/docs/${name}`, { contentType, body, headers: ASSET_HEADERS })
  }
  return router
}
