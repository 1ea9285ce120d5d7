/** The real controller, as a process that can be killed. */
import { RoleProcess } from '../support/role-process.ts'

export type ControllerSettings = {
  kubeconfigPath: string
  namespace: string
  /** Replica name in what it writes. */
  replica: string
  opsPort: number
  waitScale: number
  /** File to which its log is appended. */
  logPath: string
}

export class ControllerProcess extends RoleProcess {
  constructor({ waitScale, ...settings }: ControllerSettings) {
    super({
      ...settings,
      role: 'controller',
      settings: {
        DAVIT_WAIT_SCALE: String(waitScale),
        // Keeps everything for the comparison at the end.
        DAVIT_MAX_FINISHED_PER_ENDPOINT: '1000000',
        DAVIT_MAX_FINISHED_BYTES: '68719476736',
        DAVIT_MAX_LOG_BYTES: String(4 * 1024 ** 3),
      },
    })
  }
}
