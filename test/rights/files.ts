/** Tests that together go through everything that Davit does; none that tries what is forbidden. */
export const FILES: readonly string[] = [
  ...['ping', 'roll', 'redelivery', 'signing-secret', 'webhook-event', 'endpoint-deletion', 'payload'],
  ...[
    'retention',
    'retention-running',
    'restart',
    'replicas',
    'event-lifetime',
    'kubectl',
    'outage',
    'wall-clock',
  ],
  ...['credentials-kubectl', 'credential-rules', 'rare-calls'],
  ...['box-template', 'box-whole', 'box-authorities', 'box-problems', 'box-pods'],
]
  .map((name) => `test/integration/${name}.test.ts`)
  .concat('test/rest/rbac.test.ts', 'test/rest/http.test.ts')
