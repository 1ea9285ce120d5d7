import type { Theme } from 'vitepress'
import DefaultTheme from 'vitepress/theme'
import { theme as openApiTheme, useOpenapi, useTheme } from 'vitepress-openapi/client'
import 'vitepress-openapi/dist/style.css'
import { h } from 'vue'
import spec from '../../.stage/openapi.json'
import MermaidDiagram from './mermaid-diagram.vue'
import VersionSwitcher from './version-switcher.vue'
import './style.css'

/** Where the guides forward the port of the REST API to. */
const SERVER = 'http://127.0.0.1:8080'
const CURL = { lang: 'curl', label: 'curl', target: 'shell', client: 'curl', highlighter: 'bash' }

export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, { 'nav-bar-content-after': () => h(VersionSwitcher) }),
  enhanceApp({ app }) {
    app.component('MermaidDiagram', MermaidDiagram)
    void openApiTheme.enhanceApp({ app })
    useTheme({
      // The site sends no requests: it may be open anywhere, and tokens do not belong in it.
      operation: { hiddenSlots: ['playground', 'try-it', 'branding'] },
      path: { showBaseURL: false },
      server: { allowCustomServer: false },
      codeSamples: { availableLanguages: [CURL], defaultLang: CURL.lang },
    })
    useOpenapi({ spec: { ...spec, servers: [{ url: SERVER }] } })
  },
} satisfies Theme
