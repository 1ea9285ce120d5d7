/** The controller under measurement. */
import { type DavitRole, type RoleSettings, startRole } from './davit-role.ts'

export type Controller = DavitRole & {
  /** Deliveries that have not ended, by its own count. */
  pending(): Promise<number>
}

/** Resolves when it is ready. @throws Error when it ends before, or does not become ready in five minutes */
export async function startController(settings: RoleSettings): Promise<Controller> {
  const role = await startRole('controller', settings)
  return { ...role, pending: () => role.gauge('davit_deliveries_pending') }
}
