/** The welcome text of the playground: how to reach it, and what is worth trying. */

import { delimiter, dirname } from 'node:path'
import { shellWord } from './bakes/report.ts'
import { ORGANIZATION, OTHER_ORGANIZATION, SHOW } from './organization.ts'

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
    ? ['The waits between attempts are the documented ones: 30 s, 2 m, 10 m, ...; 3 minutes for audit.']
    : ['The waits between attempts are a twentieth of the documented ones (--real-waits: those).']
  return [
    '',
    `The organization ${SHOW} has two endpoints: billing gets every event, audit gets those of environments`,
    'in strict order. An event is published there every second. The receiver verifies each signature,',
    `and fails now and then. ${ORGANIZATION} has the same endpoints, and is yours: nothing happens there by itself.`,
    ...waits,
    '',
    ...options.held,
    ...(options.once ? [] : [...replicas(options), ...commands(options)]),
  ]
}

function replicas({ controllers }: WelcomeOptions): string[] {
  if (controllers.length === 1) return []
  return [
    'Controllers that share the work, of which you may end or kill one (kill -9) and see what comes:',
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
    'In another terminal, in this folder:',
    '',
    ...(found ? [] : [`  export PATH=${shellWord(folder)}:$PATH`]),
    `  export KUBECONFIG=${shellWord(kubeconfig)}`,
    '',
    ...exercises().flatMap(({ why, command }) => [`  # ${why}`, `  ${command}`]),
    '',
    `The same by REST, and in a browser with the same key at ${baseUrl}/docs:`,
    '',
    `  export KEY="Authorization: $(cat ${shellWord(keyFile)})"`,
    `  export ORG=${baseUrl}/organizations/${ORGANIZATION}`,
    '',
    ...requests(options).flatMap(({ why, command }) => [`  # ${why}`, `  ${command}`]),
    '',
    `And with the key of another organization, ${OTHER_ORGANIZATION}, which finds nothing of ${ORGANIZATION}:`,
    '',
    `  export KEY="Authorization: $(cat ${shellWord(otherKeyFile)})"`,
    '',
    'Ctrl-C ends everything.',
    '',
  ]
}

/** Requests to paste, with their purpose. `KEY` and `ORG` are shell variables. */
export function requests({ receiver }: Pick<WelcomeOptions, 'receiver'>): { why: string; command: string }[] {
  const curl = 'curl -sS -H "$KEY"'
  const endpoint = JSON.stringify({ url: `${receiver}/mine`, eventTypes: ['*'] })
  const event = JSON.stringify({ type: 'environment.started', data: { number: 1 } })
  return [
    { why: 'a new endpoint, with its signing secret', command: `${curl} $ORG/webhooks --json '${endpoint}'` },
    { why: 'publish an event', command: `${curl} $ORG/events --json '${event}'` },
    { why: 'what became of it', command: `${curl} $ORG/webhooks/whe_billing/deliveries` },
    { why: 'a ping', command: `${curl} -X POST $ORG/webhooks/whe_billing/ping` },
    {
      why: 'pause billing; with "enabled" it goes on',
      command: `${curl} -X PATCH $ORG/webhooks/whe_billing --json '{"status":"disabled"}'`,
    },
    { why: 'the logins of registries', command: `${curl} $ORG/registry-credentials` },
    { why: 'the cloud account, as Davit found it', command: `${curl} $ORG/secrets-settings` },
  ]
}

/** Commands to paste, with their purpose. */
export function exercises(): { why: string; command: string }[] {
  const k = `kubectl -n ${ORGANIZATION}`
  const now = '"$(date -u +%FT%TZ)"'
  return [
    { why: 'publish an event', command: `${k} create -f examples/event.yaml` },
    { why: 'the delivery log, newest first; add -w to watch it grow', command: `${k} get webhookdeliveries` },
    {
      why: 'pause audit; with "enabled" it goes on with what was held meanwhile',
      command: `${k} patch whe audit --type merge -p '{"spec":{"state":"disabled"}}'`,
    },
    {
      why: 'a new signing key; the old one goes on signing beside it for 24 hours',
      command: `${k} annotate whe billing --overwrite davit.dev/roll-requested-at=${now}`,
    },
    {
      why: 'what is known of the endpoints, and what happened to them',
      command: `${k} describe whe`,
    },
    { why: 'the logins of registries, and where their secrets are', command: `${k} get regcred -o wide` },
  ]
}
