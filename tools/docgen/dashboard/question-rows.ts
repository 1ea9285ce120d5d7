/** Rows that answer the four main questions. */
import { quantiles, type Row } from './panel.ts'

const late: Row = {
  title: 'Is anything late?',
  panels: [
    {
      kind: 'stat',
      title: 'Delay',
      about: 'How long the oldest due delivery has waited for Davit to send it.',
      unit: 's',
      thresholds: [10, 60],
      queries: [{ expr: 'max(davit_deliveries_late_seconds{waits_for="davit"})', legend: '' }],
    },
    {
      kind: 'lines',
      title: 'Oldest late delivery, by cause',
      about:
        'endpoint: waits for an endpoint that hangs, or for an earlier delivery of an ordered endpoint. Not caused by Davit.',
      unit: 's',
      queries: [
        { expr: 'max by (waits_for) (davit_deliveries_late_seconds)', legend: 'for {{waits_for}}' },
        { expr: 'max(davit_events_oldest_waiting_seconds)', legend: 'WebhookEvents, not accepted' },
      ],
    },
    {
      kind: 'lines',
      title: 'Acceptance to first attempt',
      about: 'Grows with a backlog or a CPU shortage.',
      unit: 's',
      queries: quantiles('davit_delivery_first_attempt_delay_seconds'),
    },
    {
      kind: 'lines',
      title: 'Owned shards',
      about: 'The sum is 256, except for 30 seconds after a replica dies.',
      unit: 'short',
      queries: [
        { expr: 'sum(davit_shards_owned)', legend: 'all' },
        { expr: 'sum by (pod) (davit_shards_owned)', legend: '{{pod}}' },
      ],
    },
  ],
}

const endpoints: Row = {
  title: 'Which endpoints are failing?',
  panels: [
    {
      kind: 'stat',
      title: 'Failing endpoints',
      about: 'Enabled endpoints whose last attempt failed.',
      unit: 'short',
      thresholds: [1, 20],
      queries: [{ expr: 'sum(davit_endpoints_failing)', legend: '' }],
    },
    {
      kind: 'table',
      title: 'Longest failing endpoints',
      about:
        'Time since the first failed attempt after the last success. Each replica reports at most 100 endpoints by name.',
      unit: 's',
      queries: [
        {
          expr: 'topk(10, max by (organization, endpoint_name, result) (davit_endpoint_failing_seconds))',
          legend: '',
        },
      ],
    },
    {
      kind: 'lines',
      title: 'Attempts by result',
      about: 'Responses by status class, or the reason for a missing response.',
      unit: 'ops',
      queries: [
        { expr: 'sum by (result) (rate(davit_attempts_total[$__rate_interval]))', legend: '{{result}}' },
      ],
    },
    {
      kind: 'lines',
      title: 'Finished deliveries',
      about: 'exhausted: given up after eight attempts. canceled: endpoint deleted, or held for too long.',
      unit: 'ops',
      queries: [
        {
          expr: 'sum by (state) (rate(davit_deliveries_finished_total[$__rate_interval]))',
          legend: '{{state}}',
        },
      ],
    },
  ],
}

const apiServer: Row = {
  title: 'Is the API server the bottleneck?',
  panels: [
    {
      kind: 'stat',
      title: 'Oldest write',
      about:
        'How long the oldest entry has waited to be written to the delivery log. At 5 s, Davit stops sending.',
      unit: 's',
      thresholds: [1, 5],
      queries: [{ expr: 'max(davit_log_oldest_write_seconds)', legend: '' }],
    },
    {
      kind: 'lines',
      title: 'API server latency (p99)',
      about: 'If only writes are slow, the cause is etcd.',
      unit: 's',
      queries: [
        {
          expr: 'histogram_quantile(0.99, sum by (le, verb) (rate(davit_api_call_duration_seconds_bucket{verb!="watch"}[$__rate_interval])))',
          legend: '{{verb}}',
        },
      ],
    },
    {
      kind: 'lines',
      title: 'API server responses',
      about: '429: throttled. error: no response.',
      unit: 'ops',
      queries: [
        { expr: 'sum by (code) (rate(davit_api_calls_total[$__rate_interval]))', legend: '{{code}}' },
      ],
    },
    {
      kind: 'lines',
      title: 'Davit saturation',
      about:
        'Used share of concurrent attempts and of one CPU core. Event loop lag makes all calls look slow.',
      unit: 'percentunit',
      queries: [
        {
          expr: 'max by (pod) (davit_attempts_in_flight / on (instance, pod) davit_attempts_in_flight_limit)',
          legend: 'attempts, {{pod}}',
        },
        {
          expr: 'sum by (pod) (rate(process_cpu_seconds_total[$__rate_interval]) and on (instance, pod) davit_build_info)',
          legend: 'CPU, {{pod}}',
        },
      ],
    },
  ],
}

const space: Row = {
  title: 'Is the delivery log filling etcd?',
  panels: [
    {
      kind: 'stat',
      title: 'Delivery log size (% of limit)',
      about: 'At the limit, finished events are deleted before their retention expires.',
      unit: 'percentunit',
      thresholds: [0.9, 1.1],
      queries: [{ expr: 'max(davit_log_bytes) / max(davit_log_limit_bytes)', legend: '' }],
    },
    {
      kind: 'lines',
      title: 'Delivery log size',
      about: 'Reported by the replica that owns shard 0.',
      unit: 'bytes',
      queries: [
        { expr: 'max(davit_log_bytes)', legend: 'log' },
        { expr: 'max(davit_log_limit_bytes)', legend: 'limit' },
      ],
    },
    {
      kind: 'lines',
      title: 'Bytes written in ten minutes',
      about:
        'At the limit, new events wait or are rejected with 503. etcd keeps old versions until it compacts.',
      unit: 'bytes',
      queries: [
        { expr: 'max by (pod) (davit_written_bytes)', legend: '{{pod}}' },
        { expr: 'max(davit_written_limit_bytes)', legend: 'limit' },
      ],
    },
    {
      kind: 'lines',
      title: 'Unfinished deliveries',
      about: 'held: deliveries of disabled endpoints.',
      unit: 'short',
      queries: [
        { expr: 'max(davit_deliveries_pending)', legend: 'pending' },
        { expr: 'max(davit_deliveries_held)', legend: 'held' },
        { expr: 'max(davit_deliveries_pending_limit)', legend: 'limit' },
      ],
    },
  ],
}

export const QUESTION_ROWS: readonly Row[] = [late, endpoints, apiServer, space]
