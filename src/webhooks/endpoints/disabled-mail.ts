/** The mail that tells owners of automatic disabling. */
export type DisabledEndpoint = {
  namespace: string
  name: string
  consecutiveFailures?: number
  failingSince?: string | undefined
  disabledAt?: string | undefined
}

export function disabledMail(endpoint: DisabledEndpoint): { subject: string; text: string } {
  const { namespace, name, consecutiveFailures = 0, failingSince, disabledAt } = endpoint
  return {
    subject: `Webhook endpoint ${name} of ${namespace} was disabled`,
    text: [
      `The webhook endpoint whe_${name} of the organization ${namespace} was disabled automatically${disabledAt ? ` at ${disabledAt}` : ''}.`,
      '',
      `${consecutiveFailures} deliveries in a row used up all their attempts${failingSince ? `, the first of them at ${failingSince}` : ''}.`,
      'Deliveries that had not ended are held for seven days and go on when the endpoint is enabled.',
      'Events that come while it is disabled are not delivered to it.',
      '',
      'See why the attempts failed:',
      `  kubectl -n ${namespace} get webhookdeliveries --field-selector spec.endpoint=${name},status.state=exhausted -o wide`,
      'When the receiver is mended, enable the endpoint:',
      `  kubectl -n ${namespace} annotate webhookendpoint ${name} --overwrite davit.dev/enable-requested-at="$(date -u +%FT%TZ)"`,
      '',
    ].join('\n'),
  }
}
