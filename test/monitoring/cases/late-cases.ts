/** Deliveries, processes and endpoints. */
import { DISABLED, INFO, OTHER_POD, POD, POD_LABELS, type RuleCase } from './rule-case.ts'

export const LATE_CASES: Readonly<Record<string, RuleCase>> = {
  DavitDeliveriesLate: {
    fires: {
      series: {
        [`davit_deliveries_late_seconds{waits_for="davit", ${POD}}`]: '0 61 121 181',
        [`davit_deliveries_late_seconds{waits_for="davit", ${OTHER_POD}}`]: '0x10',
      },
      minute: 3,
      says: 'A due delivery has waited 3m 1s for Davit to send it. Receivers get accepted events late.',
    },
    quiet: [
      { series: { 'davit_deliveries_late_seconds{waits_for="endpoint"}': '7200x10' }, minute: 10 },
      { series: { 'davit_deliveries_late_seconds{waits_for="davit"}': '0 90 90 0 0 0' }, minute: 5 },
    ],
  },
  DavitEventsWait: {
    fires: {
      series: { davit_events_oldest_waiting_seconds: '121+60x10' },
      minute: 4,
      says: 'A WebhookEvent has waited 6m 1s to be accepted. In most cases, none of its deliveries has been sent.',
    },
    quiet: [{ series: { davit_events_oldest_waiting_seconds: '100x10' }, minute: 10 }],
  },
  DavitShardsUnowned: {
    fires: {
      series: { [`davit_shards_owned{${POD}}`]: '128x10', [`davit_shards_owned{${OTHER_POD}}`]: '128 100x9' },
      minute: 5,
      says: 'Controller replicas own 228 shards; there are 256. Endpoints in a shard without an owner get no deliveries.',
    },
    quiet: [
      {
        series: { [`davit_shards_owned{${POD}}`]: '128x10', [`davit_shards_owned{${OTHER_POD}}`]: '128x10' },
        minute: 10,
      },
      { series: { [`davit_shards_owned{${POD}}`]: '256 100 100 256 256 256' }, minute: 5 },
    ],
  },
  DavitControllerDown: {
    fires: {
      series: { 'davit_build_info{role="api"}': '1x20' },
      labels: { role: 'controller' },
      minute: 6,
      says: 'Prometheus has no metrics from a Davit controller. Most likely, nothing is delivered.',
    },
    quiet: [{ series: { 'davit_build_info{role="controller"}': '1x20' }, minute: 10 }],
  },
  DavitApiDown: {
    fires: {
      series: { 'davit_build_info{role="controller"}': '1x20' },
      labels: { role: 'api' },
      minute: 6,
      says: 'Prometheus has no metrics from a REST server. Most likely, nothing can be published through the REST API.',
    },
    quiet: [{ series: { 'davit_build_info{role="api"}': '1x20' }, minute: 10 }],
  },
  DavitNotReady: {
    fires: {
      series: { [`davit_ready{${POD}}`]: '1 0x20' },
      labels: POD_LABELS,
      minute: 12,
      says: 'davit-controller-0 (10.0.0.1:9090) is running, but reports that it cannot do its work.',
    },
    quiet: [{ series: { [`davit_ready{${POD}}`]: '0 0 0 1x20' }, minute: 12 }],
  },
  DavitRestarts: {
    fires: {
      series: { [`process_start_time_seconds{${POD}}`]: '1 2 3 4x10', [INFO]: '1x20' },
      labels: POD_LABELS,
      minute: 5,
      says: 'davit-controller-0 (10.0.0.1:9090) has restarted 3 times in 30 minutes. Receivers may get duplicate deliveries.',
    },
    quiet: [
      { series: { [`process_start_time_seconds{${POD}}`]: '1 2 3 3x10', [INFO]: '1x20' }, minute: 5 },
      { series: { [`process_start_time_seconds{${OTHER_POD}}`]: '1 2 3 4x10', [INFO]: '1x20' }, minute: 5 },
    ],
  },
  DavitEndpointFails: {
    fires: {
      series: {
        [`davit_endpoint_failing_seconds{organization="acme", endpoint_name="billing", result="5xx", ${POD}}`]:
          '1801+60x3 _x20',
        [`davit_endpoint_failing_seconds{organization="acme", endpoint_name="billing", result="timeout", ${OTHER_POD}}`]:
          '_ _ _ 1981+60x20',
      },
      labels: { organization: 'acme', endpoint_name: 'billing' },
      minute: 6,
      says: 'The endpoint billing of acme has failed every attempt for 36m 1s. Davit gives up on each of its deliveries after eight attempts.',
    },
    quiet: [
      {
        series: {
          'davit_endpoint_failing_seconds{organization="acme", endpoint_name="billing"}': '0+60x25 _x20',
        },
        minute: 40,
      },
    ],
  },
  DavitManyEndpointsFail: {
    fires: {
      series: {
        [`davit_endpoints_failing{${POD}}`]: '3x20',
        [`davit_endpoints_failing{${OTHER_POD}}`]: '2x20',
        [`davit_endpoints{state="enabled", ${POD}}`]: '10x20',
        [`davit_endpoints{state="enabled", ${OTHER_POD}}`]: '10x20',
      },
      minute: 11,
      says: 'For 50% of all enabled endpoints, the last attempt failed. The common cause is probably in this cluster.',
    },
    quiet: [
      { series: { davit_endpoints_failing: '4x20', 'davit_endpoints{state="enabled"}': '4x20' }, minute: 20 },
      {
        series: { davit_endpoints_failing: '20x20', 'davit_endpoints{state="enabled"}': '100x20' },
        minute: 20,
      },
    ],
  },
  DavitEndpointDisabled: {
    fires: {
      series: { [DISABLED]: '3x70 4x70' },
      minute: 75,
      says: 'There are 1 more automatically disabled endpoints than an hour ago. Their pending deliveries are held for seven days.',
    },
    quiet: [
      { series: { [DISABLED]: '3x70 4x70' }, minute: 138 },
      { series: { [DISABLED]: '3x200' }, minute: 100 },
    ],
  },
  DavitOwnersNotNotified: {
    fires: {
      series: { 'davit_mails_total{result="refused"}': '0 0 1x20' },
      minute: 9,
      says: 'Davit could not send emails to owners of disabled endpoints within the last hour. These owners do not know yet that their endpoints are disabled.',
    },
    quiet: [
      {
        series: {
          'davit_mails_total{result="mailed"}': '0 1 2 3x20',
          'davit_mails_total{result="refused"}': '5x20',
        },
        minute: 15,
      },
    ],
  },
}
