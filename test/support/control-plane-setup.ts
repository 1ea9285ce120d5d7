import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { TestProject } from 'vitest/node'
import { installCrds } from '../../playground/control-plane/api-server.ts'
import { ControlPlaneUnavailable } from '../../playground/control-plane/binaries.ts'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'

const CRDS = fileURLToPath(new URL('../../crds', import.meta.url))

let controlPlane: ControlPlane | undefined

/** Runs once before all files of the project `cluster`; control-plane.ts documents what they get. */
export async function setup(project: TestProject): Promise<void> {
  try {
    // `npm run test:rights` examines the audit log of a run.
    const { DAVIT_AUDIT_FOLDER: folder } = process.env
    controlPlane = await startControlPlane(folder ? { audit: { logPath: join(folder, 'shared.log') } } : {})
  } catch (error) {
    // Its message says what to do; the stack does not help.
    if (error instanceof ControlPlaneUnavailable) error.stack = error.message
    throw error
  }
  await installCrds(controlPlane, CRDS)
  project.provide('kubeconfig', controlPlane.kubeconfigPath)
  project.provide('adminAccess', controlPlane.access)
  project.provide('etcdUrl', controlPlane.etcdUrl)
  project.provide('kubectl', controlPlane.binaries.kubectl)
}

export async function teardown(): Promise<void> {
  await controlPlane?.stop()
}
