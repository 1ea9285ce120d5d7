/** config/event-types/<name>.yaml: the shipped catalogue, to be applied directly or with a kustomization. */
import { stringify } from 'yaml'
import { builtinEventTypes } from '../../../src/apis/builtin-event-types.ts'
import { NOTICE, type Output } from '../generated-file.ts'

const FOLDER = 'config/event-types'

export const eventTypes: Output = {
  owns: [FOLDER],
  files() {
    return builtinEventTypes.map((manifest) => ({
      path: `${FOLDER}/${manifest.metadata.name}.yaml`,
      content: `# ${NOTICE}\n${stringify(manifest, { lineWidth: 0 })}`,
    }))
  },
}
