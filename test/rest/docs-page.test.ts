/** The page /docs in a real browser, on a real REST server: it works for its reader, and sends no request elsewhere. */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { applyRoles, makeAccount, makeToken } from '../support/api-keys.ts'
import { openPage, startBrowser, type WatchedPage } from '../support/browser.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { type HttpServer, startHttpServer } from '../support/http-server.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import type { OpenApiDocument } from '../support/rest-client.ts'

/** A browser on a machine that is busy takes its time. */
vi.setConfig({ testTimeout: 180_000 })

let browser: Browser
let davit: TestDavit
let server: HttpServer
let receiver: Receiver
let key: string

beforeAll(async () => {
  await applyRoles()
  receiver = await startReceiver()
  davit = await startDavit('docs-page')
  server = await startHttpServer(davit)
  await makeAccount(davit.organization, 'owner', 'davit-owner')
  key = await makeToken(davit.organization, 'owner')
  browser = await startBrowser()
})
afterAll(async () => {
  await browser?.close()
  await server?.stop()
  await davit?.stop()
  await receiver?.close()
})

/** The page as its reader finds it. It is looked at when a test is over, whatever the test was about. */
async function openDocs(): Promise<WatchedPage> {
  const watched = await openPage(browser)
  await watched.page.goto(`${server.baseUrl}/docs`)
  await watched.page.locator('.opblock').first().waitFor()
  return watched
}

/** Nothing went anywhere else, and neither the browser nor the page's policy had anything to complain of. */
function expectQuiet({ requests, complaints }: WatchedPage): void {
  expect(requests.length).toBeGreaterThan(0)
  expect(requests.filter((url) => !url.startsWith(`${server.baseUrl}/`) && !url.startsWith('data:'))).toEqual(
    [],
  )
  expect(complaints).toEqual([])
}

async function enterKey({ page }: WatchedPage, value: string): Promise<void> {
  await page.locator('button.authorize').first().click()
  await page.locator('.auth-container input').fill(value)
  await page.locator('.auth-btn-wrapper button.authorize').click()
  await page.locator('.auth-btn-wrapper button.btn-done').click()
}

type Call = { tag: string; operation: string; parameters?: Record<string, string>; body?: unknown }

/** Fills in an operation, executes it, and reads the displayed answer. */
async function execute({ page }: WatchedPage, { tag, operation, parameters = {}, body }: Call) {
  const block = page.locator(`[id="operations-${tag.replaceAll(' ', '_')}-${operation}"]`)
  await block.locator('.opblock-summary-control').click()
  for (const [name, value] of Object.entries({ orgId: davit.organization, ...parameters }))
    await block.locator(`tr[data-param-name="${name}"] input`).fill(value)
  if (body !== undefined) await block.locator('.body-param textarea').fill(JSON.stringify(body))
  await block.locator('button.execute').click()
  const live = block.locator('.live-responses-table tbody tr.response').first()
  await live.waitFor()
  const status = (await live.locator('.response-col_status').innerText()).trim().split(/\s/)[0]
  return { status: Number(status), text: await live.locator('.response-col_description').innerText() }
}

test('every operation of the document is on the page', async () => {
  const docs = await openDocs()
  const document = (await (await fetch(`${server.baseUrl}/openapi.json`)).json()) as OpenApiDocument
  const sections = [document.paths, document.webhooks].flatMap((section) => Object.values(section))
  const operations = sections.flatMap((path) => Object.values(path))
  expect(await docs.page.locator('.opblock').count()).toBe(operations.length)
  for (const { operationId } of operations)
    expect(await docs.page.locator(`.opblock[id$="-${operationId}"]`).count()).toBe(1)
  expect(await docs.page.locator('.info .title').innerText()).toContain('Davit')
  expectQuiet(docs)
})

test('a key is entered, and operations are executed with it', async () => {
  const docs = await openDocs()
  await enterKey(docs, key)
  const created = await execute(docs, {
    tag: 'Webhook endpoints',
    operation: 'createEndpoint',
    body: { url: `${receiver.url}/tried`, eventTypes: ['environment.started'] },
  })
  expect(created).toEqual({ status: 201, text: expect.stringContaining('whsec_') })
  const [endpointId = ''] = /whe_[a-z0-9]+/.exec(created.text) ?? []
  const listed = await execute(docs, { tag: 'Webhook endpoints', operation: 'listEndpoints' })
  expect(listed).toEqual({ status: 200, text: expect.stringContaining(endpointId) })
  const read = await execute(docs, {
    tag: 'Webhook endpoints',
    operation: 'getEndpoint',
    parameters: { endpointId },
  })
  expect(read).toEqual({ status: 200, text: expect.stringContaining('/tried') })
  const published = await execute(docs, {
    tag: 'Events',
    operation: 'publishEvent',
    body: { type: 'environment.started', data: { environmentId: 'env_1' } },
  })
  expect(published).toEqual({ status: 202, text: expect.stringContaining('msg_') })
  await receiver.waitFor(1, { path: '/tried' })
  expectQuiet(docs)
})

test('the key is forgotten with the page', async () => {
  const docs = await openDocs()
  await enterKey(docs, key)
  expect((await execute(docs, { tag: 'Events', operation: 'listEventTypes' })).status).toBe(200)
  const kept = await docs.page.evaluate(
    'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])',
  )
  expect(kept).toBe('[{},{},""]')
  expectQuiet(docs)
  // Elsewhere first: the address of the page names the operation that is open.
  await docs.page.goto('about:blank')
  await docs.page.goto(`${server.baseUrl}/docs`)
  const refused = await execute(docs, { tag: 'Events', operation: 'listEventTypes' })
  expect(refused).toEqual({ status: 401, text: expect.stringContaining('unauthenticated') })
})
