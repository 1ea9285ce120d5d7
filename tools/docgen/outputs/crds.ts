/** crds/davit.dev_<plural>.yaml: what `kubectl apply -f crds` and the chart install. */

import { stringify } from 'yaml'
import { GROUP } from '../../../src/apis/meta.ts'
import { customResourceDefinition, kinds } from '../crd.ts'
import { NOTICE, type Output } from '../generated-file.ts'

export const crds: Output = {
  owns: ['crds'],
  files() {
    return kinds.map((kind) => ({
      path: `crds/${GROUP}_${kind.plural}.yaml`,
      content: `# ${NOTICE}\n${stringify(customResourceDefinition(kind), { lineWidth: 0, aliasDuplicateObjects: false })}`,
    }))
  },
}
