/**
 * What kubelet asks a credential provider, and what it is answered: `credentialprovider.kubelet.k8s.io/v1`. The contract is
 * Kubernetes' (k8s.io/kubelet/pkg/apis/credentialprovider/v1), so a request may have fields that are not known here.
 */
import { z } from 'zod'

export const CREDENTIAL_PROVIDER_VERSION = 'credentialprovider.kubelet.k8s.io/v1'

/** Where EKS keeps the role of a service account. */
export const ROLE_ANNOTATION = 'eks.amazonaws.com/role-arn'

export const credentialProviderRequest = z.object({
  apiVersion: z.literal(CREDENTIAL_PROVIDER_VERSION),
  kind: z.literal('CredentialProviderRequest'),
  /** Without tag and digest. */
  image: z.string().min(1).max(1024),
  /** Where kubelet is configured for it, and the pod has a service account. */
  serviceAccountToken: z.string().exactOptional(),
  /** Those that kubelet is told to hand on. */
  serviceAccountAnnotations: z.record(z.string(), z.string()).exactOptional(),
})
export type CredentialProviderRequest = z.infer<typeof credentialProviderRequest>

export type CredentialProviderResponse = {
  apiVersion: typeof CREDENTIAL_PROVIDER_VERSION
  kind: 'CredentialProviderResponse'
  /** What kubelet keeps the answer for: this image, or all of its registry. */
  cacheKeyType: 'Image' | 'Registry'
  /** As Go writes a duration, such as `300s`. */
  cacheDuration: string
  /** By registry or repository. Empty: there is no credential for the image. */
  auth: Readonly<Record<string, { username: string; password: string }>>
}
