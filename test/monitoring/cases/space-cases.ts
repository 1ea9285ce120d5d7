/** Space, the REST API, credentials and bakes. */
import { OTHER_POD, POD, POD_LABELS, type RuleCase } from './rule-case.ts'

export const SPACE_CASES: Readonly<Record<string, RuleCase>> = {
  DavitLogNearLimit: {
    fires: {
      series: {
        [`davit_log_bytes{${POD}}`]: '0x40',
        [`davit_log_bytes{${OTHER_POD}}`]: '95x40',
        davit_log_limit_bytes: '100x40',
      },
      minute: 16,
      says: 'The delivery log uses 95% of its limit. At the limit, finished events are deleted before their retention expires.',
    },
    quiet: [
      { series: { davit_log_bytes: '85x40', davit_log_limit_bytes: '100x40' }, minute: 30 },
      { series: { davit_log_bytes: '95x40', davit_written_limit_bytes: '100x40' }, minute: 30 },
    ],
  },
  DavitLogOverLimit: {
    fires: {
      series: { davit_log_bytes: '125x40', davit_log_limit_bytes: '100x40' },
      minute: 11,
      says: 'The delivery log uses 125% of its limit, and retention cannot shrink it. It may fill the etcd quota, which stops all writes to the cluster.',
    },
    quiet: [{ series: { davit_log_bytes: '101x40', davit_log_limit_bytes: '100x40' }, minute: 30 }],
  },
  DavitWritesNearLimit: {
    fires: {
      series: { davit_written_bytes: '90x40', davit_written_limit_bytes: '100x40' },
      minute: 3,
      says: 'In the last ten minutes, Davit has used 90% of its limit on written bytes. At the limit, publish requests are rejected and new WebhookEvents wait.',
    },
    quiet: [{ series: { davit_written_bytes: '70x40', davit_written_limit_bytes: '100x40' }, minute: 20 }],
  },
  DavitPendingNearLimit: {
    fires: {
      series: {
        [`davit_deliveries_pending{${POD}}`]: '90x40',
        [`davit_deliveries_pending{${OTHER_POD}}`]: '89x40',
        davit_deliveries_pending_limit: '100x40',
      },
      minute: 6,
      says: 'Pending deliveries are at 90% of their limit. At the limit, publish requests are rejected and new WebhookEvents wait.',
    },
    quiet: [
      {
        series: { davit_deliveries_pending: '70x40', davit_deliveries_pending_limit: '100x40' },
        minute: 20,
      },
    ],
  },
  DavitOpenBytesNearLimit: {
    fires: {
      series: {
        [`davit_open_bytes{${POD}}`]: '90x40',
        [`davit_open_bytes{${OTHER_POD}}`]: '89x40',
        davit_open_limit_bytes: '100x40',
      },
      minute: 6,
      says: 'The bodies of unfinished deliveries take up 90% of their total size limit. At the limit, publish requests are rejected and new WebhookEvents wait.',
    },
    quiet: [{ series: { davit_open_bytes: '70x40', davit_open_limit_bytes: '100x40' }, minute: 20 }],
  },
  DavitPublishingRefused: {
    fires: {
      series: { 'davit_http_requests_total{route="publishEvent", code="503"}': '0+60x20' },
      minute: 6,
      says: '1 publish requests per second are rejected with 503. Publishers that do not retry lose their events.',
    },
    quiet: [
      {
        series: {
          'davit_http_requests_total{route="publishEvent", code="202"}': '0+60x20',
          'davit_http_requests_total{route="publishEvent", code="422"}': '0+60x20',
          'davit_http_requests_total{route="listEndpoints", code="503"}': '0+60x20',
        },
        minute: 15,
      },
      // A moment of it, as when a right is taken away.
      ...[6, 7, 8].map((minute) => ({
        series: { 'davit_http_requests_total{route="publishEvent", code="503"}': '0x3 60x16' },
        minute,
      })),
    ],
  },
  DavitRestFails: {
    fires: {
      series: {
        'davit_http_requests_total{route="listEndpoints", code="200"}': '0+90x20',
        'davit_http_requests_total{route="listEndpoints", code="503"}': '0+10x20',
        'davit_http_requests_total{route="publishEvent", code="202"}': '0+90x20',
      },
      labels: { route: 'listEndpoints' },
      minute: 12,
      says: '10% of the requests to listEndpoints fail with a 5xx status.',
    },
    quiet: [
      {
        series: {
          'davit_http_requests_total{route="listEndpoints", code="200"}': '0+90x20',
          'davit_http_requests_total{route="listEndpoints", code="404"}': '0+90x20',
          'davit_http_requests_total{route="listEndpoints", code="503"}': '0+1x20',
        },
        minute: 12,
      },
    ],
  },
  DavitStreamsNearLimit: {
    fires: {
      series: {
        [`davit_streams_open{${POD}}`]: '410x40',
        [`davit_streams_limit{${POD}}`]: '500x40',
        [`davit_streams_open{${OTHER_POD}}`]: '100x40',
        [`davit_streams_limit{${OTHER_POD}}`]: '500x40',
      },
      labels: POD_LABELS,
      minute: 11,
      says: 'davit-controller-0 (10.0.0.1:9090) has 82% of the event streams that it can have. At the limit, it rejects further clients.',
    },
    quiet: [
      // Two replicas together have more than one may have.
      {
        series: {
          [`davit_streams_open{${POD}}`]: '350x40',
          [`davit_streams_limit{${POD}}`]: '500x40',
          [`davit_streams_open{${OTHER_POD}}`]: '350x40',
          [`davit_streams_limit{${OTHER_POD}}`]: '500x40',
        },
        minute: 30,
      },
      // Clients that move to another replica while one restarts.
      {
        series: {
          [`davit_streams_open{${POD}}`]: '300x5 450x8 300x30',
          [`davit_streams_limit{${POD}}`]: '500x40',
        },
        minute: 14,
      },
    ],
  },
  DavitReconciliationFails: {
    fires: {
      series: { 'davit_reconcile_total{controller="box-template", result="error"}': '0+1x60' },
      labels: { controller: 'box-template' },
      minute: 18,
      says: 'The controller box-template has had reconciliation errors for 15 minutes. The affected objects are not updated.',
    },
    quiet: [
      {
        series: {
          'davit_reconcile_total{controller="box-template", result="done"}': '0+1x60',
          'davit_reconcile_total{controller="box-template", result="error"}': '0 1x60',
        },
        minute: 30,
      },
    ],
  },
  DavitCredentialsNotReady: {
    fires: {
      series: {
        'davit_objects_not_ready{kind="RegistryCredential", reason="AccountNotReady"}': '4x60',
        'davit_objects_not_ready{kind="SecretsSettings", reason=""}': '0x60',
      },
      labels: { kind: 'RegistryCredential', reason: 'AccountNotReady' },
      minute: 31,
      says: '4 objects of the kind RegistryCredential are not ready (AccountNotReady). Davit cannot store their secrets.',
    },
    quiet: [
      { series: { 'davit_objects_not_ready{kind="BoxTemplate", reason="BakeFailed"}': '4x60' }, minute: 40 },
      {
        series: { 'davit_objects_not_ready{kind="RegistryCredential", reason="Storing"}': '4x20 _x40' },
        minute: 40,
      },
    ],
  },
  DavitParametersOrphaned: {
    fires: {
      series: { davit_orphaned_parameters: '2x100' },
      minute: 61,
      says: '2 parameters of deleted credentials could not be removed from the AWS accounts of organizations.',
    },
    quiet: [{ series: { davit_orphaned_parameters: '2x30 0x60' }, minute: 80 }],
  },
  DavitBakesFail: {
    fires: {
      series: { 'davit_bakes_total{result="not_found_or_private"}': '0 1 2 3 4x60' },
      labels: { result: 'not_found_or_private' },
      minute: 20,
      says: '4 bakes have failed with not_found_or_private in the last hour. Their boxes keep the images that they have.',
    },
    quiet: [
      {
        series: {
          'davit_bakes_total{result="succeeded"}': '0+10x60',
          'davit_bakes_total{result="not_found_or_private"}': '0 1 2x60',
        },
        minute: 20,
      },
    ],
  },
  DavitCertificateExpires: {
    fires: {
      // The clock of the test starts at 0.
      series: { davit_certificate_expiry_timestamp_seconds: '86400x30' },
      minute: 20,
      says: 'The REST API certificate expires in 23h 40m 0s. After that, clients reject the connection.',
    },
    quiet: [
      { series: { davit_certificate_expiry_timestamp_seconds: '2592000x30' }, minute: 20 },
      { series: { davit_certificate_expiry_timestamp_seconds: '0x30' }, minute: 20 },
    ],
  },
}
