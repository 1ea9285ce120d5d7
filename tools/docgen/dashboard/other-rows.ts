/** Rows that are consulted after the four questions. */
import { quantiles, type Row } from './panel.ts'

const rest: Row = {
  title: 'REST API',
  panels: [
    {
      kind: 'stat',
      title: 'Answers of 500 or more',
      about: 'Of all requests.',
      unit: 'percentunit',
      thresholds: [0.01, 0.05],
      queries: [
        {
          expr: '(sum(rate(davit_http_requests_total{status=~"5.."}[$__rate_interval])) or vector(0)) / sum(rate(davit_http_requests_total[$__rate_interval]))',
          legend: '',
        },
      ],
    },
    {
      kind: 'lines',
      title: 'Requests by status',
      about: '503: come again. 429: a key asks too much.',
      unit: 'ops',
      queries: [
        { expr: 'sum by (status) (rate(davit_http_requests_total[$__rate_interval]))', legend: '{{status}}' },
      ],
    },
    {
      kind: 'lines',
      title: 'How long answers take',
      about: 'Publishing waits for the write of its events.',
      unit: 's',
      queries: quantiles('davit_http_request_duration_seconds'),
    },
    {
      kind: 'lines',
      title: 'Changes that wait for other replicas',
      about: 'Above 0 for long when one of them is behind.',
      unit: 'short',
      queries: [{ expr: 'max by (pod) (davit_changes_waiting)', legend: '{{pod}}' }],
    },
  ],
}

const objects: Row = {
  title: 'Credentials and boxes',
  panels: [
    {
      kind: 'stat',
      title: 'Orphaned parameters',
      about: 'Secrets of deleted credentials that could not be removed.',
      unit: 'short',
      thresholds: [1, 100],
      queries: [{ expr: 'max(davit_orphaned_parameters)', legend: '' }],
    },
    {
      kind: 'lines',
      title: 'Objects that are not ready',
      about: 'By kind and reason.',
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
      title: 'Calls to accounts, by answer',
      about: 'ThrottlingException: the account takes less.',
      unit: 'ops',
      queries: [
        { expr: 'sum by (code) (rate(davit_cloud_calls_total[$__rate_interval]))', legend: '{{code}}' },
      ],
    },
    {
      kind: 'lines',
      title: 'Bakes',
      about: 'Under way, waiting for their turn, and failed within an hour.',
      unit: 'short',
      queries: [
        { expr: 'max(davit_bakes_under_way)', legend: 'under way' },
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
      about: 'Processes that run and are not ready.',
      unit: 'short',
      thresholds: [1, 2],
      queries: [{ expr: 'count(davit_ready == 0) or vector(0)', legend: '' }],
    },
    {
      kind: 'lines',
      title: 'Age of Leases',
      about: 'At two thirds of DAVIT_LEASE_SECONDS a process stops acting.',
      unit: 's',
      queries: [{ expr: 'max by (pod) (davit_lease_age_seconds)', legend: '{{pod}}' }],
    },
    {
      kind: 'lines',
      title: 'Lateness of event loops (99 of 100)',
      about: 'Short of CPU, or busy with one thing for long.',
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
      about: 'Of each process.',
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

export const OTHER_ROWS: readonly Row[] = [rest, objects, processes]
