// Finds programs of the host. In plain JavaScript, since the set-up needs it before there is a Node that strips types.

import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Browsers that tests can drive, by their names on different systems. */
export const CHROMIUM = [
  'chromium',
  'chromium-browser',
  'google-chrome',
  'google-chrome-stable',
  'chromium-headless-shell',
]

/**
 * @param {readonly string[]} names any of them will do
 * @returns {string | undefined} the path of the first one on the PATH
 */
export function findProgram(names) {
  const folders = (process.env.PATH ?? '').split(delimiter)
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find(isExecutable)
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
