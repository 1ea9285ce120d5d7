/** What the playground says of itself: how to reach it, and what is worth trying. */
import { relative } from 'node:path'
import type { ControlPlane } from './control-plane.ts'
import type { PlaygroundOptions } from './options.ts'
import { ORGANIZATION } from './organization.ts'

export function welcome(controlPlane: ControlPlane, options: PlaygroundOptions): string[] {
  const kubectl = controlPlane.binaries.kubectl
  const short =
    kubectl.endsWith('/bin/kubectl') && kubectl.startsWith('/usr')
      ? 'kubectl'
      : relative('', kubectl) || kubectl
  const k = `${kubectl.length < 40 ? short : kubectl} -n ${ORGANIZATION}`
  const waits = options.realWaits
    ? 'A failed attempt is repeated after 30 s, 2 m, 10 m, ... as documented; on the ordered endpoint every 3 minutes.'
    : 'Waits are a twentieth of the documented ones, so that retries can be watched (npm start -- --real-waits keeps them).'
  return [
    '',
    `The organization ${ORGANIZATION} has two endpoints, billing and audit (ordered); an event is published every second.`,
    'Their receiver verifies each request, and fails now and then.',
    waits,
    '',
    'In another terminal:',
    `  export KUBECONFIG=${controlPlane.kubeconfigPath}`,
    '',
    `  ${k} get webhookdeliveries                     # the delivery log, newest first`,
    `  ${k} get webhookdeliveries -w -o wide          # as it grows`,
    `  ${k} create -f examples/event.yaml             # publish an event`,
    `  ${k} patch whe billing --type merge -p '{"spec":{"state":"disabled"}}'                    # pause`,
    `  ${k} annotate whe billing --overwrite davit.dev/roll-requested-at="$(date -u +%FT%TZ)"     # new signing key`,
    '',
    'Ctrl-C ends everything.',
    '',
  ]
}
