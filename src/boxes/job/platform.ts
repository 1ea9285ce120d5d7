/**
 * Whether an image runs on the platform of its box, by the image's own config. The tool chooses by platform only in an index: it pulls an
 * image of a single platform whatever the template asks for.
 */

/** In Go's names, which images use. */
export type Platform = { os: string; architecture: string; variant?: string | undefined }

/** Other spellings of architectures, which runtimes accept as well. Some imply a variant. */
const SPELLINGS: ReadonlyMap<string, readonly [architecture: string, variant?: string]> = new Map([
  ['x86_64', ['amd64']],
  ['x86-64', ['amd64']],
  ['x64', ['amd64']],
  ['i386', ['386']],
  ['ia32', ['386']],
  ['aarch64', ['arm64']],
  ['armhf', ['arm', 'v7']],
  ['armel', ['arm', 'v6']],
])

/** What a platform without a variant stands for, as in a BoxTemplate. */
const DEFAULT_VARIANTS: Readonly<Record<string, string>> = { amd64: 'v1', arm: 'v7', arm64: 'v8' }

/** @param text such as `linux/amd64` or `linux/arm64/v8` */
export function parsePlatform(text: string): Platform {
  const [os = '', architecture = '', variant] = text.split('/')
  const platform = normalize({ os, architecture, variant })
  return { ...platform, variant: platform.variant ?? DEFAULT_VARIANTS[platform.architecture] }
}

/** The platform of this machine's containers. The variant is unknown. @param architecture Node's name for it */
export function machinePlatform(architecture: string): Platform {
  return normalize({ os: 'linux', architecture: architecture === 'ppc64' ? 'ppc64le' : architecture })
}

/** A box also runs images for earlier variants. @param image as its config names it @param box without a variant if that is not known */
export function fitsBox(image: Platform, box: Platform): boolean {
  const { os, architecture, variant } = normalize(image)
  return os === box.os && architecture === box.architecture && runsVariant(variant, box.variant)
}

export function formatPlatform({ os, architecture, variant }: Platform): string {
  return [os, architecture, variant].filter((part) => part).join('/')
}

function runsVariant(needed: string | undefined, available: string | undefined): boolean {
  if (needed === undefined || available === undefined) return true
  const [least, level] = [variantLevel(needed), variantLevel(available)]
  return least === undefined || level === undefined ? needed === available : least <= level
}

/** Undefined if the variant is not a version. */
function variantLevel(variant: string): number | undefined {
  const [, major, minor = '0'] = /^v?(\d{1,2})(?:\.(\d{1,2}))?$/.exec(variant) ?? []
  return major === undefined ? undefined : Number(major) * 100 + Number(minor)
}

function normalize({ os, architecture, variant }: Platform): Platform {
  const [name, implied] = SPELLINGS.get(architecture.toLowerCase()) ?? [architecture.toLowerCase()]
  return { os: os.toLowerCase(), architecture: name, variant: variant?.toLowerCase() || implied }
}
