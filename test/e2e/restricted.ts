/** The restricted pod security standard, enforced. */

export const RESTRICTED: Readonly<Record<string, string>> = Object.fromEntries(
  ['enforce', 'warn', 'audit'].map((mode) => [`pod-security.kubernetes.io/${mode}`, 'restricted']),
)

type Container = {
  image: string
  command: readonly string[]
  volumes?: readonly object[]
  [more: string]: unknown
}

/** What fits it, with one container. */
export function restrictedPod({ volumes = [], ...container }: Container): object {
  return {
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 1,
    securityContext: { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: 'RuntimeDefault' } },
    volumes,
    containers: [
      {
        name: 'main',
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        ...container,
      },
    ],
  }
}
