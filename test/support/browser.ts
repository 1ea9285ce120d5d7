/** A real headless Chromium that records everything wrong with a page. */
import { type Browser, chromium, type Page } from 'playwright-core'
import { CHROMIUM, findProgram } from '../../tools/find-program.mjs'

export type WatchedPage = {
  page: Page
  /** URLs of all requests, including failed ones. */
  requests: string[]
  /** Console errors, exceptions, and violations of the page's content policy. */
  complaints: string[]
}

/** @throws Error if there is no such browser */
export async function startBrowser(): Promise<Browser> {
  const executablePath = findProgram(CHROMIUM)
  if (executablePath === undefined) {
    throw new Error(
      `No Chromium is on the PATH (${CHROMIUM.join(', ')}). On Debian: apt-get install chromium`,
    )
  }
  return chromium.launch({
    executablePath,
    // Background requests of the browser itself resolve to no address.
    args: ['--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
  })
}

const ACTION_LIMIT_MS = 60_000

/** Opens a page with a separate profile. */
export async function openPage(browser: Browser): Promise<WatchedPage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 1024 } })
  const requests: string[] = []
  const complaints: string[] = []
  context.on('request', (request) => requests.push(request.url()))
  context.on('requestfailed', (request) =>
    complaints.push(`${request.url()} failed: ${request.failure()?.errorText}`),
  )
  context.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
  })
  context.on('weberror', (error) => complaints.push(String(error.error())))
  const page = await context.newPage()
  page.setDefaultTimeout(ACTION_LIMIT_MS)
  await page.addInitScript(
    "document.addEventListener('securitypolicyviolation', (event) => console.error(event.violatedDirective, event.blockedURI))",
  )
  return { page, requests, complaints }
}
