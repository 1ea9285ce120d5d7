/** The real controller, as a process that can be killed. */
import { RoleProcess } from '../support/role-process.ts'

export type ControllerSettings = {
  kubeconfigPath: string
  namespace: string
  /** Names it in what it writes. */
  replica: string
  opsPort: number
  waitScale: number
  /** Its log is appended to this file. */
  logPath: string
}

export class ControllerProcess extends RoleProcess {
  constructor({ waitScale, ...settings }: ControllerSettings) {
    super({
      ...settings,
      role: 'controller',
      settings: {
        DAVIT_WAIT_SCALE: String(waitScale),
        // Everything stays, to be compared at the end.
        DAVIT_MAX_FINISHED_PER_ENDPOINT: '1000000',
        DAVIT_MAX_FINISHED: '10000000',
        DAVIT_MAX_LOG_BYTES: String(4 * 1024 ** 3),
      },
    })
  }
}
