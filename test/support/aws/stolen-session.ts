/** The session of an organization in the hands of an attacker who tries the parameters of another one. */
import {
  AddTagsToResourceCommand,
  DeleteParameterCommand,
  DeleteParametersCommand,
  GetParameterCommand,
  GetParameterHistoryCommand,
  GetParametersByPathCommand,
  GetParametersCommand,
  LabelParameterVersionCommand,
  ListTagsForResourceCommand,
  PutParameterCommand,
  RemoveTagsFromResourceCommand,
  SSMClient,
} from '@aws-sdk/client-ssm'
import { AssumeRoleCommand, type AssumeRoleCommandInput, STSClient } from '@aws-sdk/client-sts'

const ResourceType = 'Parameter'

/** Every operation on a parameter, by its name. */
const DEEDS: Readonly<Record<string, (ssm: SSMClient, name: string) => Promise<unknown>>> = {
  put: (ssm, Name) => ssm.send(new PutParameterCommand({ Name, Value: 'stolen', Type: 'SecureString' })),
  overwrite: (ssm, Name) =>
    ssm.send(new PutParameterCommand({ Name, Value: 'stolen', Type: 'SecureString', Overwrite: true })),
  'add tags': (ssm, ResourceId) =>
    ssm.send(
      new AddTagsToResourceCommand({ ResourceType, ResourceId, Tags: [{ Key: 'mine', Value: 'yes' }] }),
    ),
  'remove tags': (ssm, ResourceId) =>
    ssm.send(
      new RemoveTagsFromResourceCommand({ ResourceType, ResourceId, TagKeys: ['davit.dev/installation'] }),
    ),
  'list tags': (ssm, ResourceId) => ssm.send(new ListTagsForResourceCommand({ ResourceType, ResourceId })),
  label: (ssm, Name) => ssm.send(new LabelParameterVersionCommand({ Name, Labels: ['mine'] })),
  read: (ssm, Name) => ssm.send(new GetParameterCommand({ Name, WithDecryption: true })),
  'read several': (ssm, name) => ssm.send(new GetParametersCommand({ Names: [name], WithDecryption: true })),
  'read history': (ssm, Name) => ssm.send(new GetParameterHistoryCommand({ Name, WithDecryption: true })),
  'read by path': (ssm, name) =>
    ssm.send(new GetParametersByPathCommand({ Path: name.slice(0, name.lastIndexOf('/')), Recursive: true })),
  'read all by path': (ssm) => ssm.send(new GetParametersByPathCommand({ Path: '/', Recursive: true })),
  delete: (ssm, Name) => ssm.send(new DeleteParameterCommand({ Name })),
  'delete several': (ssm, name) => ssm.send(new DeleteParametersCommand({ Names: [name] })),
}

export class StolenSession {
  readonly #ssm: SSMClient

  private constructor(ssm: SSMClient) {
    this.#ssm = ssm
  }

  /** @param terms with which Davit has assumed the role: the session is the same */
  static async of(
    terms: AssumeRoleCommandInput,
    at: { url: string; region: string },
  ): Promise<StolenSession> {
    const where = { region: at.region, endpoint: at.url, maxAttempts: 1 }
    const sts = new STSClient(where)
    const { Credentials: given } = await sts.send(new AssumeRoleCommand(terms))
    sts.destroy()
    const credentials = {
      accessKeyId: given?.AccessKeyId ?? '',
      secretAccessKey: given?.SecretAccessKey ?? '',
      sessionToken: given?.SessionToken ?? '',
    }
    return new StolenSession(new SSMClient({ ...where, credentials }))
  }

  /** @returns the result of each operation: the code of the error, or `done` */
  async tryAll(name: string): Promise<Record<string, string>> {
    const outcomes: Record<string, string> = {}
    for (const [what, act] of Object.entries(DEEDS))
      outcomes[what] = await act(this.#ssm, name).then(
        () => 'done',
        (error: unknown) => (error instanceof Error ? error.name : String(error)),
      )
    return outcomes
  }

  end(): void {
    this.#ssm.destroy()
  }
}
