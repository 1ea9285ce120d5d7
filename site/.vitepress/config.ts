import { readFileSync } from 'node:fs'
import { defineConfig } from 'vitepress'

const version = process.env.DAVIT_DOCS_VERSION ?? '0.0'
/** Of all versions. */
const root = process.env.DAVIT_DOCS_ROOT ?? '/'
const base = `${root}${version}/`
const sidebar = JSON.parse(readFileSync(new URL('../.stage/sidebar.json', import.meta.url), 'utf8'))

/** Enough of a grammar for the queries on the pages: the highlighter ships none. */
const PROMQL = {
  name: 'promql',
  scopeName: 'source.promql',
  patterns: [
    { name: 'string.quoted', match: '"[^"]*"' },
    { name: 'constant.numeric', match: '\\b\\d+(?:\\.\\d+)?(?:ms|[smhdwy])?\\b' },
    { name: 'keyword.control', match: '\\b(?:by|without|on|ignoring|and|or|unless|offset)\\b' },
    { name: 'entity.name.function', match: '\\b[a-z_]+(?=\\s*\\()' },
  ],
}

/** As GitHub makes it, so that a link to a heading holds there and here. */
function anchorOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-')
}

export default defineConfig({
  title: 'Davit',
  description: 'Signed webhooks and registry credentials for every organization, on Kubernetes.',
  lang: 'en',
  base,
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: `${base}favicon.svg` }]],
  srcDir: '.stage',
  outDir: `dist/${version}`,
  cacheDir: '.cache',
  metaChunk: true,
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    anchor: { slugify: anchorOf },
    languages: [PROMQL],
    config(md) {
      const { fence } = md.renderer.rules
      md.renderer.rules.fence = (tokens, index, options, env, self) => {
        const { info = '', content = '' } = tokens[index] ?? {}
        if (info.trim() !== 'mermaid') return fence?.(tokens, index, options, env, self) ?? ''
        const source = encodeURIComponent(content).replaceAll("'", '%27')
        return `<MermaidDiagram source="${source}" />`
      }
      // Two curly braces in code are no template.
      md.core.ruler.push('code_without_templates', ({ tokens }) => {
        for (const { children } of tokens)
          for (const token of children ?? []) if (token.type === 'code_inline') token.attrSet('v-pre', '')
      })
    },
  },
  themeConfig: {
    davit: { version, root },
    logo: '/favicon.svg',
    nav: [
      { text: 'Quickstart', link: '/get-started/quickstart' },
      { text: 'Concepts', link: '/concepts/overview' },
      { text: 'Guides', link: '/guides/install' },
      { text: 'Troubleshooting', link: '/troubleshooting/' },
      { text: 'Reference', link: '/reference/rest-api' },
    ],
    sidebar,
    outline: [2, 3],
    search: { provider: 'local' },
    docFooter: { prev: 'Previous', next: 'Next' },
  },
  transformPageData(page) {
    // The document needs the whole width.
    if (page.relativePath === 'reference/rest-api.md') Object.assign(page.frontmatter, { aside: false })
  },
  vite: { build: { chunkSizeWarningLimit: 5000 } },
})
