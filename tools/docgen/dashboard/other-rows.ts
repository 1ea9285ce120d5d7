/** Rows that are consulted after the four questions. */
import { quantiles, type Row } from './panel.ts'

const rest: Row = {
  title: 'REST API',
  panels: [
    {
      kind: 'stat',
      title: '5xx responses',
      about: 'Share of all requests.',
      unit: 'percentunit',
      thresholds: [0.01, 0.05],
      queries: [
        {
          expr: '(sum(rate(davit_http_requests_total{code=~"5.."}[$__rate_interval])) or vector(0)) / sum(rate(davit_http_requests_total[$__rate_interval]))',
          legend: '',
        },
      ],
    },
    {
      kind: 'lines',
      title: 'Requests by status',
      about: '503: the client must retry. 429: an API token exceeds its rate limit.',
      unit: 'ops',
      queries: [
        { expr: 'sum by (code) (rate(davit_http_requests_total[$__rate_interval]))', legend: '{{code}}' },
      ],
    },
    {
      kind: 'lines',
      title: 'Request latency',
      about: 'Publish requests wait until their events are written.',
      unit: 's',
      queries: quantiles('davit_http_request_duration_seconds'),
    },
    {
      kind: 'lines',
      title: 'Changes waiting for other replicas',
      about: 'Stays above 0 if a replica is behind.',
      unit: 'short',
      queries: [{ expr: 'max by (pod) (davit_changes_waiting)', legend: '{{pod}}' }],
    },
  ],
}

const streams: Row = {
  title: 'Event streams',
  panels: [
    {
      kind: 'stat',
      title: 'Open streams (% of limit)',
      about: 'The replica of the REST API with the most streams. At the limit, it rejects further clients.',
      unit: 'percentunit',
      thresholds: [0.8, 0.9],
      queries: [{ expr: 'max(davit_streams_open / on (instance, pod) davit_streams_limit)', legend: '' }],
    },
    {
      kind: 'lines',
      title: 'Open streams',
      about: 'Streams that clients have open. The limit applies to each replica separately.',
      unit: 'short',
      queries: [
        { expr: 'max by (pod) (davit_streams_open)', legend: '{{pod}}' },
        { expr: 'max(davit_streams_limit)', legend: 'limit' },
      ],
    },
    {
      kind: 'lines',
      title: 'Dropped streams',
      about: 'Streams of clients that were too slow. They must connect again and list what they missed.',
      unit: 'short',
      queries: [
        { expr: 'sum by (pod) (increase(davit_streams_dropped_total[$__rate_interval]))', legend: '{{pod}}' },
      ],
    },
    {
      kind: 'lines',
      title: 'Messages for clients that continue',
      about: 'At most 32 MiB. Then the organization with the most messages loses its oldest ones.',
      unit: 'bytes',
      queries: [{ expr: 'max by (pod) (davit_stream_buffer_bytes)', legend: '{{pod}}' }],
    },
  ],
}

const bodies: Row = {
  title: 'Bodies and finished deliveries',
  panels: [
    {
      kind: 'stat',
      title: 'Bodies of unfinished deliveries (% of limit)',
      about: 'At the limit, new events wait or are rejected with 503.',
      unit: 'percentunit',
      thresholds: [0.8, 0.9],
      queries: [{ expr: 'max(davit_open_bytes) / max(davit_open_limit_bytes)', legend: '' }],
    },
    {
      kind: 'lines',
      title: 'Bodies',
      about:
        'Unfinished: stored in etcd, including those of disabled endpoints. Controllers keep a part in memory.',
      unit: 'bytes',
      queries: [
        { expr: 'max(davit_open_bytes)', legend: 'unfinished' },
        { expr: 'max(davit_open_limit_bytes)', legend: 'limit' },
        { expr: 'max by (pod) (davit_payload_bytes)', legend: 'in memory, {{pod}}' },
      ],
    },
    {
      kind: 'lines',
      title: 'Objects of finished deliveries',
      about: 'At the limit, Davit deletes the oldest ones of the organization with the most.',
      unit: 'bytes',
      queries: [
        { expr: 'sum(davit_finished_bytes)', legend: 'objects' },
        { expr: 'max(davit_finished_limit_bytes)', legend: 'limit' },
      ],
    },
    {
      kind: 'lines',
      title: 'Successes without an object',
      about: 'Above the limit on objects per second. The REST API still lists these deliveries.',
      unit: 'ops',
      queries: [{ expr: 'sum(rate(davit_views_omitted_total[$__rate_interval]))', legend: 'omitted' }],
    },
  ],
}

const objects: Row = {
  title: 'Credentials and boxes',
  panels: [
    {
      kind: 'stat',
      title: 'Orphaned parameters',
      about: 'Secrets of deleted credentials that Davit could not remove.',
      unit: 'short',
      thresholds: [1, 100],
      queries: [{ expr: 'max(davit_orphaned_parameters)', legend: '' }],
    },
    {
      kind: 'lines',
      title: 'Objects not ready',
      about: 'Objects by kind and reason.',
      unit: 'short',
      queries: [
        {
          expr: 'max by (kind, reason) (davit_objects_not_ready)',
          legend: '{{kind}} {{reason}}',
        },
      ],
    },
    {
      kind: 'lines',
      title: 'AWS calls by response',
      about: 'ThrottlingException: the AWS account limits the call rate.',
      unit: 'ops',
      queries: [
        { expr: 'sum by (code) (rate(davit_cloud_calls_total[$__rate_interval]))', legend: '{{code}}' },
      ],
    },
    {
      kind: 'lines',
      title: 'Bakes',
      about: 'Bakes that are running, waiting for their turn, or failed within the last hour.',
      unit: 'short',
      queries: [
        { expr: 'max(davit_bakes_in_progress)', legend: 'running' },
        { expr: 'max(davit_bakes_waiting)', legend: 'waiting' },
        { expr: 'sum(increase(davit_bakes_total{result!="succeeded"}[1h]))', legend: 'failed' },
      ],
    },
  ],
}

const processes: Row = {
  title: 'Processes',
  panels: [
    {
      kind: 'stat',
      title: 'Not ready',
      about: 'Processes that are running but not ready.',
      unit: 'short',
      thresholds: [1, 2],
      queries: [{ expr: 'count(davit_ready == 0) or vector(0)', legend: '' }],
    },
    {
      kind: 'lines',
      title: 'Lease age',
      about: 'At two thirds of DAVIT_LEASE_DURATION, a process stops working.',
      unit: 's',
      queries: [{ expr: 'max by (pod) (davit_lease_age_seconds)', legend: '{{pod}}' }],
    },
    {
      kind: 'lines',
      title: 'Event loop lag (p99)',
      about: 'High if the process is short of CPU, or blocked by one long task.',
      unit: 's',
      queries: [
        {
          expr: 'max by (pod) (nodejs_eventloop_lag_p99_seconds and on (instance, pod) davit_build_info)',
          legend: '{{pod}}',
        },
      ],
    },
    {
      kind: 'lines',
      title: 'Memory',
      about: 'Resident memory of each process.',
      unit: 'bytes',
      queries: [
        {
          expr: 'max by (pod) (process_resident_memory_bytes and on (instance, pod) davit_build_info)',
          legend: '{{pod}}',
        },
      ],
    },
  ],
}

export const OTHER_ROWS: readonly Row[] = [bodies, rest, streams, objects, processes]
