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
      says: 'One of a hundred calls of the Kubernetes API takes 2s or more.',
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
  DavitApiServerRefuses: {
    fires: {
      series: {
        'davit_api_calls_total{verb="create", code="201"}': '0+90x30',
        'davit_api_calls_total{verb="create", code="429"}': '0+5x30',
        'davit_api_calls_total{verb="list", code="error"}': '0+5x30',
      },
      minute: 12,
      says: '10% of all calls of the Kubernetes API are throttled, fail, or are not answered.',
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
      says: 'The oldest outcome has waited 2m 10s to be written to the delivery log.',
    },
    quiet: [{ series: { 'davit_log_oldest_write_seconds{kind="outcome"}': '6 0 6 0 6 0' }, minute: 5 }],
  },
  DavitLeaseLost: {
    fires: {
      series: { [`davit_lease_held{${POD}}`]: '1 0x10' },
      labels: POD_LABELS,
      minute: 4,
      says: 'davit-controller-0 (10.0.0.1:9090) neither sends nor publishes until it has renewed its Lease.',
    },
    quiet: [{ series: { [`davit_lease_held{${POD}}`]: '0 0 1x10' }, minute: 6 }],
  },
  DavitChangesHang: {
    fires: {
      series: { [`davit_changes_waiting{${POD}}`]: '2x10' },
      labels: POD_LABELS,
      minute: 7,
      says: '2 changes or more wait in davit-controller-0 (10.0.0.1:9090) for other replicas of the REST API.',
    },
    quiet: [{ series: { [`davit_changes_waiting{${POD}}`]: '2 2 0 2 2 0 2 2 0 2 2 0' }, minute: 11 }],
  },
  DavitProcessBusy: {
    fires: {
      series: { [`nodejs_eventloop_lag_p99_seconds{${POD}}`]: '0.75x20', [INFO]: '1x20' },
      labels: POD_LABELS,
      minute: 6,
      says: 'The event loop of davit-controller-0 (10.0.0.1:9090) is late by 750ms.',
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
        [`davit_limit{of="attempts_in_flight", ${POD}}`]: '2048x20',
      },
      labels: POD_LABELS,
      minute: 11,
      says: 'davit-controller-0 (10.0.0.1:9090) uses 100% of its attempts at a time.',
    },
    quiet: [
      {
        series: {
          [`davit_attempts_in_flight{${POD}}`]: '1800x20',
          [`davit_limit{of="attempts_in_flight", ${POD}}`]: '2048x20',
        },
        minute: 15,
      },
    ],
  },
}
