/** Rows that answer the four main questions. */
import { quantiles, type Row } from './panel.ts'

const late: Row = {
  title: 'Is anything late?',
  panels: [
    {
      kind: 'stat',
      title: 'Late',
      about:
        'For how long the delivery that is due longest, and that its endpoint would take, has not been sent.',
      unit: 's',
      thresholds: [10, 60],
      queries: [{ expr: 'max(davit_deliveries_late_seconds{waits_for="davit"})', legend: '' }],
    },
    {
      kind: 'lines',
      title: 'What is late, and what it waits for',
      about:
        'What waits for an endpoint that hangs, or for the head of an ordered one, is no fault of Davit.',
      unit: 's',
      queries: [
        { expr: 'max by (waits_for) (davit_deliveries_late_seconds)', legend: 'for {{waits_for}}' },
        { expr: 'max(davit_events_oldest_waiting_seconds)', legend: 'WebhookEvents, to be accepted' },
      ],
    },
    {
      kind: 'lines',
      title: 'From acceptance to the first attempt',
      about: 'Grows with a backlog, or when a process is short of CPU.',
      unit: 's',
      queries: quantiles('davit_event_to_first_attempt_seconds'),
    },
    {
      kind: 'lines',
      title: 'Shards that are worked on',
      about: 'The sum is 256, but for the half minute after the death of a replica.',
      unit: 'short',
      queries: [
        { expr: 'sum(davit_shards_owned)', legend: 'all' },
        { expr: 'sum by (pod) (davit_shards_owned)', legend: '{{pod}}' },
      ],
    },
  ],
}

const endpoints: Row = {
  title: 'Which endpoint fails?',
  panels: [
    {
      kind: 'stat',
      title: 'Failing',
      about: 'Enabled endpoints whose last attempt failed.',
      unit: 'short',
      thresholds: [1, 20],
      queries: [{ expr: 'sum(davit_endpoints_failing)', legend: '' }],
    },
    {
      kind: 'table',
      title: 'Failing for longest',
      about:
        'Time since the first attempt that failed after the last success; at most 100 of a replica are known by name.',
      unit: 's',
      queries: [
        {
          expr: 'topk(10, max by (organization, endpoint_name, class) (davit_endpoint_failing_seconds))',
          legend: '',
        },
      ],
    },
    {
      kind: 'lines',
      title: 'Attempts by result',
      about: 'Answers by their class, and why there was none.',
      unit: 'ops',
      queries: [
        { expr: 'sum by (class) (rate(davit_attempts_total[$__rate_interval]))', legend: '{{class}}' },
      ],
    },
    {
      kind: 'lines',
      title: 'Deliveries that ended',
      about: 'exhausted: given up after eight attempts. canceled: endpoint deleted, or held too long.',
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
  title: 'Is the API server the limit?',
  panels: [
    {
      kind: 'stat',
      title: 'Oldest write',
      about:
        'For how long what waits longest to be written to the log has waited. At 5 s nothing more is sent.',
      unit: 's',
      thresholds: [1, 5],
      queries: [{ expr: 'max(davit_log_oldest_write_seconds)', legend: '' }],
    },
    {
      kind: 'lines',
      title: 'How long its calls take (99 of 100)',
      about: 'Slow writes alone are etcd.',
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
      title: 'Its answers',
      about: '429 is throttling, error no answer at all.',
      unit: 'ops',
      queries: [
        { expr: 'sum by (code) (rate(davit_api_calls_total[$__rate_interval]))', legend: '{{code}}' },
      ],
    },
    {
      kind: 'lines',
      title: 'Or is it Davit itself?',
      about:
        'Parts of what it has: attempts at a time, and CPU of one core. A late event loop makes all calls look slow.',
      unit: 'percentunit',
      queries: [
        {
          expr: 'max by (pod) (davit_attempts_in_flight / on (instance, pod) davit_limit{of="attempts_in_flight"})',
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
  title: 'Does the log fill the cluster?',
  panels: [
    {
      kind: 'stat',
      title: 'Log, of its limit',
      about: 'Beyond it, finished events go before their time.',
      unit: 'percentunit',
      thresholds: [0.9, 1.1],
      queries: [{ expr: 'max(davit_log_bytes) / max(davit_limit{of="log_bytes"})', legend: '' }],
    },
    {
      kind: 'lines',
      title: 'Size of the delivery log',
      about: 'Known by the replica that has shard 0.',
      unit: 'bytes',
      queries: [
        { expr: 'max(davit_log_bytes)', legend: 'log' },
        { expr: 'max(davit_limit{of="log_bytes"})', legend: 'limit' },
      ],
    },
    {
      kind: 'lines',
      title: 'Written in ten minutes',
      about:
        'Beyond the limit new events wait, or are refused with 503. etcd keeps old versions until it compacts.',
      unit: 'bytes',
      queries: [
        { expr: 'max by (pod) (davit_written_bytes)', legend: '{{pod}}' },
        { expr: 'max(davit_limit{of="written_bytes"})', legend: 'limit' },
      ],
    },
    {
      kind: 'lines',
      title: 'Deliveries that have not ended',
      about: 'Those held are of disabled endpoints.',
      unit: 'short',
      queries: [
        { expr: 'max(davit_deliveries_pending)', legend: 'pending' },
        { expr: 'max(davit_deliveries_held)', legend: 'held' },
        { expr: 'max(davit_limit{of="deliveries_pending"})', legend: 'limit' },
      ],
    },
  ],
}

export const QUESTION_ROWS: readonly Row[] = [late, endpoints, apiServer, space]
