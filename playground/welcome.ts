/** The welcome text of the playground: how to reach it, and what is worth trying. */

import { delimiter, dirname } from 'node:path'
import { shellWord } from './bakes/report.ts'
import { ORGANIZATION, OTHER_ORGANIZATION, SHOW } from './organization.ts'
import { USUAL_URL } from './receiver.ts'

export type WelcomeOptions = {
  kubeconfig: string
  kubectl: string
  /** Base URL of the REST API. */
  baseUrl: string
  /** File with an owner's API token. */
  keyFile: string
  /** File with an API token of another organization. */
  otherKeyFile: string
  receiver: string
  /** Lines about the content of the cloud account. */
  held: readonly string[]
  realWaits: boolean
  controllers: readonly { replica: string; pid: number | undefined }[]
  /** The playground ends by itself in a moment, so there is no time to try anything. */
  once: boolean
  /** Folders where the reader's shell looks for programs. */
  searchPath: string
}

/** Lines of at most 100 columns, except for longer paths. */
export function welcome(options: WelcomeOptions): string[] {
  const waits = options.realWaits
    ? ['Delays between attempts are as documented: 30 s, 2 m, 10 m, ...; 3 minutes for audit.']
    : ['Delays between attempts are a twentieth of the documented ones (use --real-waits for those).']
  return [
    '',
    `The organization ${SHOW} has two endpoints: billing gets all events; audit gets environment events`,
    'in strict order. The playground publishes an event there every second. The receiver verifies each',
    `signature and fails now and then. ${ORGANIZATION} has the same endpoints, for your own experiments.`,
    ...waits,
    ...otherPort(options),
    '',
    ...options.held,
    ...(options.once ? [] : [...replicas(options), ...commands(options)]),
  ]
}

function otherPort({ receiver }: WelcomeOptions): string[] {
  if (receiver === USUAL_URL) return []
  return [
    `The port of ${USUAL_URL} is taken, so the receiver listens at ${receiver}.`,
    'Use this address in examples/endpoint.yaml.',
  ]
}

function replicas({ controllers }: WelcomeOptions): string[] {
  if (controllers.length === 1) return []
  return [
    'Controllers that share the work. Stop or kill (kill -9) one of them to watch the takeover:',
    '',
    ...controllers.map(({ replica, pid }) => `  ${replica}, process ${pid}`),
    '',
  ]
}

function commands(options: WelcomeOptions): string[] {
  const { kubeconfig, kubectl, searchPath, baseUrl, keyFile, otherKeyFile } = options
  const folder = dirname(kubectl)
  const found = searchPath.split(delimiter).includes(folder)
  return [
    'Run these commands in another terminal, in this folder:',
    '',
    ...(found ? [] : [`  export PATH=${shellWord(folder)}:$PATH`]),
    `  export KUBECONFIG=${shellWord(kubeconfig)}`,
    '',
    ...exercises().flatMap(({ why, command }) => [`  # ${why}`, `  ${command}`]),
    '',
    `The same over REST. You can also use ${baseUrl}/docs in a browser with the same token:`,
    '',
    `  export KEY="Authorization: $(cat ${shellWord(keyFile)})"`,
    `  export ORG=${baseUrl}/organizations/${ORGANIZATION}`,
    '',
    ...requests(options).flatMap(({ why, command }) => [`  # ${why}`, `  ${command}`]),
    '',
    `The token of another organization, ${OTHER_ORGANIZATION}, which cannot see ${ORGANIZATION}:`,
    '',
    `  export KEY="Authorization: $(cat ${shellWord(otherKeyFile)})"`,
    '',
  ]
}

/** What follows the instructions. @param file where they are as well @param hasKeys whether the playground reads keys */
export function reminder(file: string, hasKeys: boolean): string[] {
  return [
    `These instructions are also in ${file}.`,
    hasKeys
      ? 'Press h to show them again, p to pause the list of attempts, q or Ctrl-C to stop everything.'
      : 'Press Ctrl-C to stop everything.',
    '',
  ]
}

/** Requests to paste, with their purpose. `KEY` and `ORG` are shell variables. */
export function requests({ receiver }: Pick<WelcomeOptions, 'receiver'>): { why: string; command: string }[] {
  const curl = 'curl -sS -H "$KEY"'
  const endpoint = JSON.stringify({ url: `${receiver}/mine`, eventTypes: ['*'] })
  const event = JSON.stringify({ type: 'environment.started', data: { number: 1 } })
  return [
    {
      why: 'create an endpoint; the response contains its signing secret',
      command: `${curl} $ORG/webhooks --json '${endpoint}'`,
    },
    { why: 'publish an event', command: `${curl} $ORG/events --json '${event}'` },
    { why: 'list the deliveries of billing', command: `${curl} $ORG/webhooks/whe_billing/deliveries` },
    { why: 'send a ping', command: `${curl} -X POST $ORG/webhooks/whe_billing/ping` },
    {
      why: 'pause billing; set "enabled" to resume',
      command: `${curl} -X PATCH $ORG/webhooks/whe_billing --json '{"status":"disabled"}'`,
    },
    { why: 'list the registry credentials', command: `${curl} $ORG/registry-credentials` },
    { why: 'show the AWS account settings and their checks', command: `${curl} $ORG/secrets-settings` },
  ]
}

/** Commands to paste, with their purpose. */
export function exercises(): { why: string; command: string }[] {
  const k = `kubectl -n ${ORGANIZATION}`
  return [
    { why: 'publish an event', command: `${k} create -f examples/event.yaml` },
    { why: 'list the delivery log, newest first; add -w to watch', command: `${k} get webhookdeliveries` },
    {
      why: 'pause audit; set "enabled" to resume with the held deliveries',
      command: `${k} patch wep audit --type merge -p '{"spec":{"state":"disabled"}}'`,
    },
    {
      why: 'rotate the signing secret; the old one also signs for another 24 hours',
      command: `${k} annotate wep billing --overwrite davit.dev/rotate-requested-at=$(date -u +%FT%TZ)`,
    },
    {
      why: 'show the endpoints with their status and Events',
      command: `${k} describe wep`,
    },
    {
      why: 'list the registry credentials with the locations of their secrets',
      command: `${k} get rcr -o wide`,
    },
  ]
}
