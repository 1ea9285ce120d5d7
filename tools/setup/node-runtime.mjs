import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { SetupError } from './setup-error.mjs'

const OLDEST_NODE = 24

/**
 * @param {string} root the clone
 * @returns {boolean} whether there is a Node in node_modules/.bin (a dangling link does not count)
 */
export function hasNodeRuntime(root) {
  return existsSync(nodePath(root))
}

/**
 * Makes sure that node_modules/.bin/node is new enough for Davit: an optional package brings it for Linux on x64 and arm64; on
 * other systems the host's own is linked there if it is new enough.
 *
 * @param {string} root the clone
 * @returns {string} its version
 */
export function ensureNodeRuntime(root) {
  const path = nodePath(root)
  const brought = versionOf(path)
  if (isNewEnough(brought)) return brought
  const host = versionOf(process.execPath)
  if (!isNewEnough(host)) throw new SetupError(adviceAbout(brought, host))
  mkdirSync(join(root, 'node_modules', '.bin'), { recursive: true })
  rmSync(path, { force: true })
  symlinkSync(process.execPath, path)
  return host
}

function adviceAbout(brought, host) {
  const tried =
    brought === undefined
      ? `npm installed none that runs on ${process.platform} ${process.arch}`
      : `node_modules/.bin contains ${brought}`
  return (
    `Davit needs Node.js ${OLDEST_NODE} or later: ${tried}, and this host has ${host ?? 'an unknown version'}. ` +
    `On Linux (x64 or arm64, glibc), connect to the package registry and try again. ` +
    `On other systems, install Node.js ${OLDEST_NODE} or later from https://nodejs.org and try again.`
  )
}

function isNewEnough(version) {
  return version !== undefined && Number(version.slice(1).split('.')[0]) >= OLDEST_NODE
}

function versionOf(path) {
  const result = spawnSync(path, ['--version'], { encoding: 'utf8', timeout: 30_000 })
  const version = result.stdout?.trim() ?? ''
  return /^v\d+\./.test(version) ? version : undefined
}

function nodePath(root) {
  return join(root, 'node_modules', '.bin', 'node')
}
