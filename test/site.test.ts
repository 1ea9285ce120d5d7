/** The documentation site, built as `npm run docs` builds it, in a real browser. */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../playground/free-port.ts'
import { openPage, startBrowser } from './support/browser.ts'
import { until } from './support/until.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const DIST = join(ROOT, 'site/dist')
const BUILD_LIMIT_MS = 20 * 60_000
const READ_LIMIT_MS = 10 * 60_000
const VERSION = '0.1'
const NARROW = { width: 390, height: 844 }

let server: ChildProcess
let site: string
let browser: Browser
let output = ''

beforeAll(async () => {
  const port = String(await freePort())
  server = spawn('npm', ['run', 'docs', '--', '--serve', '--port', port], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  for (const stream of [server.stdout, server.stderr])
    stream?.on('data', (chunk: Buffer) => {
      output += chunk.toString()
    })
  site = `http://127.0.0.1:${port}/${VERSION}/`
  await until(
    async () => {
      if (server.exitCode !== null) throw new Error(`npm run docs ended with ${server.exitCode}: ${output}`)
      const response = await fetch(site).catch(() => undefined)
      return response?.ok || undefined
    },
    () => `the site is not served: ${output}`,
    BUILD_LIMIT_MS,
  )
  browser = await startBrowser()
}, BUILD_LIMIT_MS)

afterAll(async () => {
  await browser?.close()
  if (server?.pid !== undefined) process.kill(-server.pid, 'SIGTERM')
})

function pages(): string[] {
  return globSync('**/*.html', { cwd: join(DIST, VERSION) }).filter((path) => path !== '404.html')
}

test('is built without a warning', () => {
  expect(output).toContain(`site/dist/${VERSION}`)
  expect(output).not.toMatch(/warn|error|failed/i)
})

test('every link within the site leads to a page, and to a heading in it', () => {
  const texts = new Map(pages().map((path) => [path, readFileSync(join(DIST, VERSION, path), 'utf8')]))
  const broken = [...texts].flatMap(([path, text]) =>
    [...text.matchAll(/<a[^>]* href="([^"]+)"/g)]
      .map(([, href = '']) => new URL(href, site + path))
      .filter((url) => url.href.startsWith(site) && !isThere(url, texts))
      .map((url) => `${path}: ${url.href}`),
  )
  expect([...new Set(broken)]).toEqual([])
})

/** @param texts HTML of the pages */
function isThere({ href, hash }: URL, texts: ReadonlyMap<string, string>): boolean {
  const target = href
    .slice(site.length)
    .replace(/#.*/, '')
    .replace(/(^|\/)$/, '$1index.html')
  if (!target.endsWith('.html')) return existsSync(join(DIST, VERSION, target))
  const text = texts.get(target)
  return text !== undefined && (hash === '' || text.includes(`id="${decodeURIComponent(hash.slice(1))}"`))
}

describe('in a browser', () => {
  test(
    'every page shows itself, wide and narrow, and asks no other host for anything',
    async () => {
      const { page, requests, complaints } = await openPage(browser)
      const wide = page.viewportSize() ?? NARROW
      const overflowing: string[] = []
      const withoutPicture: string[] = []
      for (const path of pages()) {
        await page.goto(site + path, { waitUntil: 'networkidle' })
        const diagrams = await page.locator('.mermaid').allTextContents()
        if (diagrams.some((text) => text.includes('Syntax error'))) withoutPicture.push(path)
        for (const size of [NARROW, wide]) {
          await page.setViewportSize(size)
          const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
          if (Number(overflow) > 0) overflowing.push(`${path} at ${size.width}: ${overflow}`)
        }
      }
      expect({ overflowing, withoutPicture }).toEqual({ overflowing: [], withoutPicture: [] })
      // What the browser fetched in advance for the next click.
      expect(complaints.filter((complaint) => !complaint.endsWith('net::ERR_ABORTED'))).toEqual([])
      expect(
        requests.filter((url) => !/^(data|blob):/.test(url) && !url.startsWith(new URL(site).origin)),
      ).toEqual([])
    },
    READ_LIMIT_MS,
  )

  test.each(['light', 'dark'] as const)('text can be read in %s mode', async (colorScheme) => {
    const { page } = await openPage(browser)
    await page.emulateMedia({ colorScheme })
    const faint: string[] = []
    for (const path of KINDS_OF_PAGES) {
      await page.goto(site + path, { waitUntil: 'networkidle' })
      const isDark = await page.evaluate("document.documentElement.classList.contains('dark')")
      expect(isDark).toBe(colorScheme === 'dark')
      for (const text of await page.evaluate<string[]>(FAINT_TEXTS)) faint.push(`${path}: ${text}`)
    }
    expect(faint).toEqual([])
  })

  test('search finds a page by its words and opens it', async () => {
    const { page } = await openPage(browser)
    await page.goto(site)
    const box = page.getByRole('searchbox')
    // The key does nothing until the page has started its program.
    await until(
      async () => {
        if (await box.isVisible()) return true
        await page.keyboard.press('Control+k')
        return await box.waitFor({ timeout: 2000 }).then(
          () => true,
          () => undefined,
        )
      },
      () => 'search does not open',
      60_000,
    )
    await box.fill('uninstall')
    await page.locator('.result').first().waitFor()
    await page.keyboard.press('Enter')
    await page.waitForURL(/uninstall/)
    await page.getByRole('heading', { level: 1, name: 'Uninstall' }).waitFor()
  })

  test('diagrams are pictures', async () => {
    const { page } = await openPage(browser)
    await page.goto(site)
    await page.locator('.mermaid svg').first().waitFor()
    expect(await page.locator('.mermaid svg').first().textContent()).toContain('Davit controller')
  })

  test('the API reference shows every operation', async () => {
    const { page } = await openPage(browser)
    await page.goto(`${site}reference/rest-api.html`)
    const document = JSON.parse(readFileSync(join(ROOT, 'docs/reference/openapi.json'), 'utf8')) as {
      paths: Record<string, Record<string, { summary?: string }>>
    }
    const summaries = Object.values(document.paths).flatMap((path) =>
      Object.values(path).flatMap(({ summary }) => (summary === undefined ? [] : [summary])),
    )
    expect(summaries.length).toBeGreaterThan(10)
    for (const summary of summaries) await page.getByRole('heading', { name: summary }).first().waitFor()
  })

  test('the list of versions leads to the same page of another one', async () => {
    const { page } = await openPage(browser)
    const root = new URL('..', site).href
    await page.route(`${root}versions.json`, (route) => route.fulfill({ json: ['9.9', VERSION] }))
    await page.route(`${root}9.9/**`, (route) => route.fulfill({ body: 'The other version.' }))
    await page.goto(`${site}guides/install.html`)
    const versions = page.getByLabel('Version of the documentation')
    expect(await versions.inputValue()).toBe(VERSION)
    await versions.selectOption('9.9')
    await page.waitForURL(`${root}9.9/guides/install.html`)
  })
})

const KINDS_OF_PAGES = [
  '',
  'get-started/quickstart.html',
  'concepts/events-and-deliveries.html',
  'reference/rest-api.html',
  'reference/settings.html',
  'troubleshooting/deliveries.html',
]

/** In the browser: the texts of the page with less contrast than WCAG 2.2 (AA) requires, each once, with their ratio. */
const FAINT_TEXTS = `(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true })
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1)
    canvas.fillStyle = color
    canvas.fillRect(0, 0, 1, 1)
    return [...canvas.getImageData(0, 0, 1, 1).data]
  }
  const over = ([r, g, b, a], [r2, g2, b2]) => [r, g, b].map((c, i) => (c * a + [r2, g2, b2][i] * (255 - a)) / 255)
  const backgroundOf = (element) => {
    const color = rgba(getComputedStyle(element).backgroundColor)
    if (color[3] === 255) return color
    return over(color, element.parentElement ? backgroundOf(element.parentElement) : [255, 255, 255])
  }
  const luminance = (color) => {
    const [r, g, b] = color.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const faint = new Set()
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim()
    const element = walker.currentNode.parentElement
    if (text === '' || element.closest('svg, script, style, [aria-hidden=true]')) continue
    const { width, height } = element.getBoundingClientRect()
    const style = getComputedStyle(element)
    if (width < 2 || height < 2 || style.visibility !== 'visible' || style.opacity !== '1') continue
    const background = backgroundOf(element)
    const [low, high] = [luminance(over(rgba(style.color), background)), luminance(background)].sort((a, b) => a - b)
    const ratio = (high + 0.05) / (low + 0.05)
    const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700)
    if (ratio < (isLarge ? 3 : 4.5)) faint.add(ratio.toFixed(2) + ' ' + text.slice(0, 60))
  }
  return [...faint].slice(0, 20)
})()`
