/** The API server, and whether it is Davit itself. */
import { BUCKET, INFO, OTHER_POD, POD, POD_LABELS, type RuleCase } from './rule-case.ts'

export const API_SERVER_CASES: Readonly<Record<string, RuleCase>> = {
  DavitApiServerSlow: {
    fires: {
      series: {
        [`${BUCKET}{verb="create", le="1"}`]: '0+97x30',
        [`${BUCKET}{verb="create", le="2.5"}`]: '0+100x30',
        [`${BUCKET}{verb="create", le="+Inf"}`]: '0+100x30',
      },
      minute: 20,
      says: 'The 99th-percentile latency of Kubernetes API calls is 2s, which slows down publishing and deliveries.',
    },
    quiet: [
      {
        series: {
          [`${BUCKET}{verb="create", le="1"}`]: '0+100x30',
          [`${BUCKET}{verb="create", le="+Inf"}`]: '0+100x30',
          [`${BUCKET}{verb="watch", le="1"}`]: '0x30',
          [`${BUCKET}{verb="watch", le="+Inf"}`]: '0+100x30',
        },
        minute: 25,
      },
    ],
  },
  DavitApiServerRejects: {
    fires: {
      series: {
        'davit_api_calls_total{verb="create", code="201"}': '0+90x30',
        'davit_api_calls_total{verb="create", code="429"}': '0+5x30',
        'davit_api_calls_total{verb="list", code="error"}': '0+5x30',
      },
      minute: 12,
      says: '10% of Kubernetes API calls are throttled, fail or get no response. Davit retries them, so its work slows down.',
    },
    quiet: [
      {
        series: {
          'davit_api_calls_total{verb="create", code="201"}': '0+90x30',
          'davit_api_calls_total{verb="patch", code="409"}': '0+40x30',
          'davit_api_calls_total{verb="create", code="429"}': '0+1x30',
        },
        minute: 20,
      },
    ],
  },
  DavitStoreBehind: {
    fires: {
      series: { [`davit_log_oldest_write_seconds{kind="outcome", ${POD}}`]: '0 10 70 130x5' },
      labels: { kind: 'outcome' },
      minute: 3,
      says: 'The oldest outcome has waited 2m 10s to be written to the delivery log. Davit stops sending or publishing until the write succeeds.',
    },
    quiet: [{ series: { 'davit_log_oldest_write_seconds{kind="outcome"}': '6 0 6 0 6 0' }, minute: 5 }],
  },
  DavitLeaseLost: {
    fires: {
      series: { [`davit_lease_held{${POD}}`]: '1 0x10' },
      labels: POD_LABELS,
      minute: 4,
      says: 'davit-controller-0 (10.0.0.1:9090) neither sends nor publishes until it renews its Lease.',
    },
    quiet: [{ series: { [`davit_lease_held{${POD}}`]: '0 0 1x10' }, minute: 6 }],
  },
  DavitChangesHang: {
    fires: {
      series: { [`davit_changes_waiting{${POD}}`]: '2x10' },
      labels: POD_LABELS,
      minute: 7,
      says: 'At least 2 changes in davit-controller-0 (10.0.0.1:9090) are waiting for other REST API replicas. Clients get 503 not_acknowledged.',
    },
    quiet: [{ series: { [`davit_changes_waiting{${POD}}`]: '2 2 0 2 2 0 2 2 0 2 2 0' }, minute: 11 }],
  },
  DavitProcessBusy: {
    fires: {
      series: { [`nodejs_eventloop_lag_p99_seconds{${POD}}`]: '0.75x20', [INFO]: '1x20' },
      labels: POD_LABELS,
      minute: 6,
      says: 'The event loop of davit-controller-0 (10.0.0.1:9090) lags by 750ms. All its work is delayed, and it may lose its Lease.',
    },
    quiet: [
      { series: { [`nodejs_eventloop_lag_p99_seconds{${POD}}`]: '0.02x20', [INFO]: '1x20' }, minute: 10 },
      { series: { [`nodejs_eventloop_lag_p99_seconds{${OTHER_POD}}`]: '2x20', [INFO]: '1x20' }, minute: 10 },
    ],
  },
  DavitAttemptsAtLimit: {
    fires: {
      series: {
        [`davit_attempts_in_flight{${POD}}`]: '2048x20',
        [`davit_attempts_in_flight_limit{${POD}}`]: '2048x20',
      },
      labels: POD_LABELS,
      minute: 11,
      says: 'davit-controller-0 (10.0.0.1:9090) is using 100% of its limit on concurrent attempts. Due deliveries wait for an attempt to finish.',
    },
    quiet: [
      {
        series: {
          [`davit_attempts_in_flight{${POD}}`]: '1800x20',
          [`davit_attempts_in_flight_limit{${POD}}`]: '2048x20',
        },
        minute: 15,
      },
    ],
  },
}
