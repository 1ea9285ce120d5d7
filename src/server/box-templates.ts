import { z } from 'zod'
import { bakeFailureCode, bakeState, failedStep } from '../apis/bake.ts'
import { type BoxTemplate, boxTemplate, boxTemplateKind, boxTemplates } from '../apis/box-template.ts'
import { createdAtOf } from '../apis/ids.ts'
import { DNS_LABEL } from '../apis/meta.ts'
import { isApiError, type ResourceReader } from '../kube/client.ts'
import { conditionSchema, describeConditions } from './condition-resource.ts'
import { Problem } from './http/problems.ts'
import { READ_BOX_TEMPLATES, type Route, route } from './http/route.ts'
import { type Cursors, nextCursor, type PageQuery, pageQuery, time } from './lists.ts'
import { readStored } from './objects.ts'

/** Box templates over REST, to read only: what a box consists of, and what became of its bake (interface §2.2). */

const condition = conditionSchema('Ready, Succeeded or Current')

const service = z.object({
  name: z.string().meta({ description: 'name is the name of the service.' }),
  kind: z.enum(['custom', 'catalog']),
  image: z.string().meta({ description: 'image is the image reference.' }),
  registryCredentialId: z
    .string()
    .optional()
    .meta({ description: 'registryCredentialId is the ID of the credential for pulling the image.' }),
  digest: z.string().optional().meta({
    description: 'digest is the digest that the current bake has pulled. It is absent until then.',
  }),
})

const failure = z.object({
  service: z
    .string()
    .optional()
    .meta({ description: 'service is the service that failed, if the failure is specific to one.' }),
  step: failedStep,
  code: bakeFailureCode,
  message: z.string().meta({ description: 'message is the output of the tool, without secrets.' }),
  fix: z.string().meta({ description: 'fix explains what to do.' }),
})

const bake = z.object({
  state: bakeState,
  number: z
    .int()
    .meta({ description: 'number is the number of bakes of this template, including this one.' }),
  startedAt: time('startedAt is the time at which the bake started.').optional(),
  completedAt: time('completedAt is the time at which the bake finished.').optional(),
  nextAttemptAt: time('nextAttemptAt is the time at which Davit retries a failed bake.').optional(),
  failure: failure.optional(),
})

const template = z
  .object({
    name: z.string().meta({ description: 'name is the name of the template.', example: 'shop' }),
    services: z.array(service),
    platform: z.string().optional(),
    serviceAccountName: z
      .string()
      .optional()
      .meta({ description: 'serviceAccountName is the ServiceAccount of the box.' }),
    persistentVolumeClaim: z
      .string()
      .optional()
      .meta({ description: 'persistentVolumeClaim is where the images are stored.' }),
    bake: bake.optional().meta({
      description: 'bake is the bake in progress or the last bake. It is absent until one starts.',
    }),
    conditions: z.array(condition),
    createdAt: time('createdAt is the time at which the template was created.'),
  })
  .meta({ id: 'BoxTemplate', description: 'The services of a box, and its last bake.' })

type BoxTemplateResource = z.output<typeof template>

const KIND = { type: boxTemplates, kind: boxTemplateKind.kind, schema: boxTemplate }

/** A template may have a megabyte of annotations, which the response leaves out. */
const MAX_READ = 20
/** Memory for a page that is usual: without such annotations. */
const BYTES_OF_PAGE = 2 * 1024 * 1024

export class BoxTemplateService {
  readonly #resources: ResourceReader

  constructor({ resources }: { resources: ResourceReader }) {
    this.#resources = resources
  }

  /**
   * A page in the order of names, as the API server cuts it, so it may be short. Templates of another version of Davit that cannot be
   * read are left out. @throws Problem `cursor_expired`; ApiError
   */
  async list(
    organization: string,
    { limit, after }: PageQuery,
  ): Promise<{ boxTemplates: BoxTemplateResource[]; next?: string }> {
    try {
      const query = { namespace: organization, limit: Math.min(limit, MAX_READ) }
      const page = await this.#resources.list(boxTemplates, query, after)
      const found = page.items.flatMap((raw) => boxTemplate.safeParse(raw).data ?? [])
      return {
        boxTemplates: found.map(resourceOf),
        ...(page.continue === undefined ? {} : { next: page.continue }),
      }
    } catch (error) {
      throw isApiError(error, 'Gone') ? new Problem('cursor_expired', { cause: error }) : error
    }
  }

  /** @throws Problem not_found; ApiError; UnreadableError */
  async read(organization: string, name: string): Promise<BoxTemplateResource> {
    if (!DNS_LABEL.test(name)) throw new Problem('not_found')
    const ref = { namespace: organization, name }
    return resourceOf((await readStored(this.#resources, KIND, ref, () => undefined)).object)
  }
}

function resourceOf({ metadata, spec, status }: BoxTemplate): BoxTemplateResource {
  const { bake } = status ?? {}
  const digests = new Map(bake?.services?.map(({ name, digest }) => [name, digest]))
  return {
    name: metadata.name,
    services: spec.services.map((one) => ({ ...one, digest: digests.get(one.name) })),
    platform: spec.platform,
    serviceAccountName: spec.instanceRole?.serviceAccountName,
    persistentVolumeClaim: spec.output?.persistentVolumeClaim,
    bake: bake && {
      state: bake.state,
      number: bake.number,
      startedAt: bake.startedAt,
      completedAt: bake.completedAt,
      nextAttemptAt: bake.nextAttemptAt,
      failure: bake.failure,
    },
    conditions: describeConditions(status?.conditions),
    createdAt: createdAtOf(metadata),
  }
}

const TAG = 'Box templates'
const PATH = '/box-templates'

export function boxTemplateRoutes(
  service: Pick<BoxTemplateService, 'list' | 'read'>,
  cursors: Cursors,
): Route[] {
  return [
    route({
      id: 'listBoxTemplates',
      method: 'get',
      path: PATH,
      tag: TAG,
      summary: 'List the box templates',
      description:
        'Returns the box templates, sorted by name. To create or change a template, use the Kubernetes API.',
      permission: READ_BOX_TEMPLATES,
      query: pageQuery,
      answerBytes: () => BYTES_OF_PAGE,
      success: {
        status: 200,
        description: 'A page of box templates.',
        body: z.object({ boxTemplates: z.array(template), cursor: nextCursor }),
      },
      problems: ['cursor_expired'],
      async handle({ organization, query }) {
        const list = ['boxTemplates', organization]
        return { body: await cursors.bodyOf(list, query, (page) => service.list(organization, page)) }
      },
    }),
    route({
      id: 'getBoxTemplate',
      method: 'get',
      path: `${PATH}/{boxTemplateName}`,
      tag: TAG,
      summary: 'Read a box template',
      permission: READ_BOX_TEMPLATES,
      params: z.object({
        boxTemplateName: z
          .string()
          .regex(DNS_LABEL)
          .meta({ description: 'boxTemplateName is the name of the template.', example: 'shop' }),
      }),
      success: { status: 200, description: 'The box template and its last bake.', body: template },
      problems: ['unreadable'],
      async handle({ organization, params: { boxTemplateName } }) {
        return { body: await service.read(organization, boxTemplateName) }
      },
    }),
  ]
}
