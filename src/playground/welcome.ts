/** What the playground says of itself: how to reach it, and what is worth trying. */
import { delimiter, dirname } from 'node:path'
import { ORGANIZATION } from './organization.ts'

export type WelcomeOptions = {
  kubeconfig: string
  kubectl: string
  realWaits: boolean
  /** It ends by itself in a moment: there is no time to try anything. */
  once: boolean
  /** Folders where the reader's shell looks for programs. */
  searchPath: string
}

/** Lines of at most 100 columns, but for paths that are longer. */
export function welcome(options: WelcomeOptions): string[] {
  const waits = options.realWaits
    ? ['The waits between attempts are the documented ones: 30 s, 2 m, 10 m, ...; 3 minutes for audit.']
    : ['The waits between attempts are a twentieth of the documented ones (--real-waits: those).']
  return [
    '',
    `The organization ${ORGANIZATION} has two endpoints: billing gets every event, audit gets those of`,
    'environments in strict order. An event is published every second. The receiver verifies each',
    'signature, and fails now and then.',
    ...waits,
    '',
    ...(options.once ? [] : commands(options)),
  ]
}

function commands({ kubeconfig, kubectl, searchPath }: WelcomeOptions): string[] {
  const folder = dirname(kubectl)
  const found = searchPath.split(delimiter).includes(folder)
  return [
    'In another terminal, in this folder:',
    '',
    ...(found ? [] : [`  export PATH="${folder}:$PATH"`]),
    `  export KUBECONFIG=${kubeconfig}`,
    '',
    ...exercises().flatMap(({ why, command }) => [`  # ${why}`, `  ${command}`]),
    '',
    'Ctrl-C ends everything.',
    '',
  ]
}

/** Commands to paste, with what they are for. */
export function exercises(): { why: string; command: string }[] {
  const k = `kubectl -n ${ORGANIZATION}`
  const now = '"$(date -u +%FT%TZ)"'
  return [
    { why: 'the delivery log, newest first; add -w to watch it grow', command: `${k} get webhookdeliveries` },
    { why: 'publish an event', command: `${k} create -f examples/event.yaml` },
    {
      why: 'pause billing; with "enabled" it goes on with what was held meanwhile',
      command: `${k} patch whe billing --type merge -p '{"spec":{"state":"disabled"}}'`,
    },
    {
      why: 'a new signing key; the old one goes on signing beside it for 24 hours',
      command: `${k} annotate whe billing --overwrite davit.dev/roll-requested-at=${now}`,
    },
    {
      why: 'what is known of the endpoints, and what happened to them',
      command: `${k} describe whe`,
    },
  ]
}
