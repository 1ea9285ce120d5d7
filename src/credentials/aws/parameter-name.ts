/**
 * Names of parameters: `<prefix>/<organization>/rc_<credential>`. They come from Davit alone. None is too long: the setting of
 * the prefix allows 100 characters in 8 parts, and an ARN of a parameter may have 1,011 in 15.
 */
import { CREDENTIAL_PREFIX } from '../../apis/identifiers.ts'
import { DNS_LABEL } from '../../apis/meta.ts'

/** What every parameter of an organization is under, without a slash at the end. */
export function organizationPath({ prefix, organization }: { prefix: string; organization: string }): string {
  return `${prefix}/${label(organization)}`
}

export function parameterName(of: { prefix: string; organization: string; credential: string }): string {
  return `${organizationPath(of)}/${CREDENTIAL_PREFIX}${label(of.credential)}`
}

/**
 * A parameter that holds no secret: whether it can be written and read is what is tried. It is named as those of credentials are, so
 * that what is allowed for `rc_*` alone is found; no credential has its name, since none may have an underscore.
 */
export function probeName(of: { prefix: string; organization: string }): string {
  return `${organizationPath(of)}/rc__probe`
}

/** The credential whose parameter it is; undefined for any other name. */
export function credentialOf(name: string, of: { prefix: string; organization: string }): string | undefined {
  const start = `${organizationPath(of)}/${CREDENTIAL_PREFIX}`
  const credential = name.startsWith(start) ? name.slice(start.length) : ''
  return DNS_LABEL.test(credential) ? credential : undefined
}

/** Names come from the API server, which has checked them; a slash in one would be a way into another organization. */
function label(name: string): string {
  if (!DNS_LABEL.test(name)) throw new RangeError('not a DNS label')
  return name
}
