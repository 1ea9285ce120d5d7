/**
 * The pages of the kinds, the page for operating and the README are true: their commands, pasted next to a running playground in
 * the order of the page, complete. Prerequisites of a page are created here: its example as a file, and a receiver.
 */
import { readFile, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { PlaygroundFacts } from '../../playground/playground-file.ts'
import { commandsOf } from '../e2e/page-script.ts'
import {
  type PlaygroundProcess,
  startPlaygroundProcess,
  temporaryFolder,
} from '../support/playground-process.ts'
import { ShellSession } from '../support/shell-session.ts'

const ROOT = new URL('../../', import.meta.url)
const START_LIMIT_MS = 120_000
const PAGE_LIMIT_MS = 240_000
/** The REST API in the guides. */
const API = 'https://hooks.example.com'
/** A Secret that is handed over later is found within a minute. */
const BLOCK_LIMIT_MS = 150_000
const EXAMPLE = /```yaml\n(?<yaml>.*?)```/s

type Page = {
  path: string
  /** Below this heading alone. */
  words?: string
  /** The file that the page calls its example. */
  example?: string
  /** Pasted before. */
  first?: string
  /** What no playground has, and what stands for it. */
  instead?: readonly (readonly [RegExp | string, string])[]
}

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let playground: PlaygroundProcess
let facts: PlaygroundFacts
let shell: ShellSession

beforeAll(async () => {
  folder = await temporaryFolder()
  playground = startPlaygroundProcess(folder.path)
  facts = await playground.facts()
  await symlink(folder.path, join(folder.path, '.davit'))
  await symlink(fileURLToPath(new URL('examples', ROOT)), join(folder.path, 'examples'))
  const path = dirname(facts.kubectl)
  shell = await ShellSession.start({ cwd: folder.path, path, limitMs: BLOCK_LIMIT_MS })
  await paste(
    `export KUBECONFIG='${facts.kubeconfig}' TOKEN=a-token-of-a-registry RECEIVER='${facts.receiver}/page'`,
  )
}, START_LIMIT_MS)
afterAll(async () => {
  playground?.child.kill('SIGTERM')
  await playground?.ended
  await shell?.[Symbol.asyncDispose]()
  await folder?.[Symbol.asyncDispose]()
})

const RECEIVERS = /https:\/\/(billing|receiver)\.example\.com\/hooks|http:\/\/127\.0\.0\.1:8484\/\w+/g
const PAGES: readonly Page[] = [
  { path: 'docs/reference/event-type.md', example: 'event-type.yaml' },
  {
    path: 'docs/get-started/own-event-types.md',
    // The page follows the quickstart; its receiver is a pod, and the playground has its own.
    first: [
      'kubectl apply -k examples/quickstart',
      'kubectl -n davit-quickstart patch wep first --type=merge -p \'{"spec":{"url":"\'$RECEIVER\'"}}\'',
    ].join('\n'),
    instead: [[/^kubectl .* logs .*$/gm, '']],
  },
  { path: 'docs/reference/webhook-endpoint.md', example: 'endpoint.yaml' },
  { path: 'docs/reference/webhook-event.md', example: 'event.yaml' },
  { path: 'docs/reference/webhook-delivery.md' },
  {
    path: 'docs/reference/delivery-log.md',
    // One large event makes a packed segment.
    first: [
      `jq -n '{apiVersion: "davit.dev/v1alpha1", kind: "WebhookEvent", metadata: {name: "large"}, spec: {type: "environment.started", dataText: ({padding: ("0" * 6000)} | tojson)}}' | kubectl -n acme apply -f -`,
      "kubectl -n acme wait wev/large --for=jsonpath='{.status.eventId}' --timeout=30s",
    ].join('\n'),
  },
  { path: 'docs/guides/gitops.md', words: 'Who owns what' },
  {
    path: 'docs/reference/registry-credential.md',
    example: 'credential.yaml',
    // The playground has a credential of that name already, and may have bound the role.
    first: 'kubectl -n acme delete rolebinding/davit-secrets rcr/ghcr --ignore-not-found',
    // Nothing is orphaned here.
    instead: [[/^# Acknowledge (.|\n)*/gm, '']],
  },
  {
    path: 'docs/reference/box-template.md',
    words: 'Working with it',
    example: 'box-template.yaml',
    // Its registry and its credential are the playground's, and its pods are processes, of which there is no log here.
    instead: [
      [/\bshop\b/g, 'works'],
      [/^kubectl -n acme logs .*$/gm, ''],
    ],
  },
  { path: 'docs/guides/operate.md', words: 'Inspect the state' },
  { path: 'docs/get-started/playground.md', words: 'Use kubectl' },
  { path: 'docs/get-started/playground.md', words: 'Use curl' },
  // The account is connected, and the token of its first lines is handed over once more.
  { path: 'docs/get-started/playground.md', words: 'Manage registry credentials' },
  // The account of the playground, which is connected already.
  {
    path: 'docs/reference/secrets-settings.md',
    words: 'Working with it',
    instead: [['123456789012', '222222222222']],
  },
  { path: 'docs/guides/publish-events.md' },
  { path: 'docs/guides/rotate-signing-secrets.md' },
  {
    path: 'docs/guides/replay-deliveries.md',
    // An ordered endpoint is done with a delivery in a minute.
    first: `kubectl -n acme apply -f - <<END
apiVersion: davit.dev/v1alpha1
kind: WebhookEndpoint
metadata: { name: broken }
spec: { url: "http://127.0.0.1:9/", eventTypes: [billing.updated], ordered: true }
END
kubectl -n acme wait wep/broken --for=condition=Ready
kubectl -n acme create -f - <<END
apiVersion: davit.dev/v1alpha1
kind: WebhookEvent
metadata: { generateName: lost- }
spec: { type: billing.updated, data: { plan: team } }
END
sleep 5
kubectl -n acme wait wdl --field-selector spec.endpoint=broken --for=jsonpath='{.status.state}'=exhausted --timeout=120s
kubectl -n acme patch wep broken --type=merge -p '{"spec":{"url":"https://billing.example.com/hooks"}}'`,
    instead: [[/billing(?!\.)/g, 'broken']],
  },
  // Nothing of Davit runs in a pod.
  {
    path: 'docs/troubleshooting/README.md',
    instead: [[/^kubectl -n davit-system logs .*$/gm, '']],
  },
  { path: 'docs/troubleshooting/deliveries.md' },
  { path: 'docs/troubleshooting/endpoints.md' },
  { path: 'docs/troubleshooting/publishing.md' },
  {
    path: 'docs/troubleshooting/credentials-and-bakes.md',
    // The role is bound already, as the command before this one shows.
    instead: [
      [/^kubectl -n acme create rolebinding .*$/gm, ''],
      [/\bshop\b/g, 'wrong-password'],
    ],
  },
  { path: 'docs/troubleshooting/installation.md', words: 'Davit lacks a permission' },
  // It ends with the deletion of an endpoint that other pages use.
  { path: 'docs/guides/manage-endpoints.md', example: 'endpoint.yaml' },
]

it.for(PAGES.map((page) => ({ ...page, title: [page.path, page.words ?? 'all of it'].join(': ') })))(
  '$title',
  { timeout: PAGE_LIMIT_MS },
  async (page) => {
    const text = inPlayground(await readFile(new URL(page.path, ROOT), 'utf8'))
    if (page.example) {
      const yaml = EXAMPLE.exec(text)?.groups?.yaml ?? ''
      expect(text, 'the page names the file of its example').toContain(` ${page.example}`)
      await writeFile(join(folder.path, page.example), yaml)
    }
    if (page.first) await paste(inPlayground(page.first))
    for (const block of commandsOf(text, page.words)) await paste(withInstead(block, page))
  },
)

/** With the addresses of the playground. */
function inPlayground(text: string): string {
  return text.replaceAll(RECEIVERS, `${facts.receiver}/page`).replaceAll(API, facts.baseUrl)
}

function withInstead(block: string, { instead = [] }: Page): string {
  return instead.reduce((said, [what, by]) => said.replaceAll(what, by), block)
}

/** Each block by one bash that ends with the first command that fails, as a person would. */
async function paste(block: string): Promise<string> {
  const { code, stdout, stderr, statuses } = await shell.paste(`set -e\n${block}`)
  const refused = statuses.filter((status) => status >= 400)
  expect({ code, refused, why: code === 0 ? '' : stderr }, block).toEqual({ code: 0, refused: [], why: '' })
  return stdout
}
