/**
 * Kinds from outside of Kubernetes that the chart creates objects of if values ask for it. Their definitions are in Go modules,
 * which tools/chart-kinds pins and Go caches.
 */

import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { parse } from 'yaml'
import { requestApi } from '../../../playground/control-plane/api-server.ts'
import type { AdminAccess } from '../../../playground/control-plane/protocol.ts'
import { until } from '../until.ts'

const run = promisify(execFile)

const MODULES = fileURLToPath(new URL('../../../tools/chart-kinds', import.meta.url))
const DOWNLOAD_LIMIT_MS = 10 * 60_000
const DEFINITIONS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'

/** The file of each definition, by name. */
const FILES: Readonly<Record<string, readonly [module: string, file: string]>> = {
  Certificate: ['github.com/cert-manager/cert-manager', 'deploy/crds/cert-manager.io_certificates.yaml'],
  HTTPRoute: ['sigs.k8s.io/gateway-api', 'config/crd/standard/gateway.networking.k8s.io_httproutes.yaml'],
  PrometheusRule: [
    'github.com/prometheus-operator/prometheus-operator',
    'example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml',
  ],
  ServiceMonitor: [
    'github.com/prometheus-operator/prometheus-operator',
    'example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml',
  ],
}

export const FOREIGN_KINDS: ReadonlySet<string> = new Set(Object.keys(FILES))

type Definition = {
  metadata: { name: string }
  spec: { group: string; versions: { name: string; served: boolean }[] }
}

/** Resolves when the API server accepts and describes objects of all kinds. @throws Error without Go, or its modules */
export async function installForeignKinds(access: AdminAccess): Promise<void> {
  const folders = await moduleFolders()
  const definitions = await Promise.all(
    Object.values(FILES).map(async ([module, file]) => {
      const text = await readFile(join(folders.get(module) ?? '', file), 'utf8')
      return parse(text) as Definition
    }),
  )
  for (const definition of definitions) {
    const { status, body } = await requestApi(access, {
      method: 'POST',
      path: DEFINITIONS,
      body: definition,
    })
    if (status !== 201 && status !== 409) throw new Error(JSON.stringify(body))
  }
  for (const { spec } of definitions)
    for (const { name, served } of spec.versions)
      if (served) await untilDescribed(access, `apis/${spec.group}/${name}`)
}

/** By the path of the module. */
async function moduleFolders(): Promise<ReadonlyMap<string, string>> {
  const env = { ...process.env, GOWORK: 'off', GOFLAGS: '' }
  const options = { cwd: MODULES, env, timeout: DOWNLOAD_LIMIT_MS }
  const { stdout } = await run('go', ['mod', 'download', '-json'], options)
  const modules = JSON.parse(`[${stdout.trim().replaceAll('}\n{', '},{')}]`) as {
    Path: string
    Dir: string
  }[]
  return new Map(modules.map(({ Path, Dir }) => [Path, Dir]))
}

/** With a schema: before there is one, the kind counts as unknown. */
async function untilDescribed(access: AdminAccess, path: string): Promise<void> {
  await until(
    async () => {
      const { body } = await requestApi(access, { method: 'GET', path: '/openapi/v3' })
      return path in (body as { paths: object }).paths || undefined
    },
    () => `the API server does not describe ${path}`,
  )
}
