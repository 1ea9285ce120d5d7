/** A node for tests: the pod of a Job runs as a process, and its end is written to the statuses of pod and Job. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type PodEnd, startPod } from '../../playground/bakes/pod-process.ts'
import { makeToken } from './api-keys.ts'
import type { JobStandIn } from './job-stand-in.ts'

/** A node with the volumes of its claims, which outlive pods. */
export class TestNode {
  readonly folder = mkdtempSync(join(tmpdir(), 'davit-node-'))
  readonly #bed: JobStandIn
  #pods = 0

  constructor(bed: JobStandIn) {
    this.#bed = bed
  }

  volumeOf(claim: string): string {
    return join(this.folder, 'volumes', claim)
  }

  /** Runs the active Job of a template to its end. */
  async run(template: string): Promise<PodEnd> {
    const job = await this.#bed.job(template)
    const pod = await this.#bed.run(job)
    this.#pods += 1
    const running = await startPod(job.spec.template.spec, {
      folder: join(this.folder, `pod-${this.#pods}`),
      volumeOf: (claim) => this.volumeOf(claim),
      token: ({ serviceAccount, audience }) =>
        makeToken(this.#bed.organization, serviceAccount, { audiences: [audience] }),
      configMap: (name) => this.#bed.configMapData(name),
    })
    const end = await running.ended
    await this.#bed.end(job, { pod, message: end.message, exitCode: end.code })
    return end
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true })
  }
}
