{{- /* The Pods of bakes: settings of the controller, and what the policy on its Jobs knows of them. */}}

{{- define "davit.bakes.settings" -}}
{{- $bakes := .Values.bakes }}
{{- if not (or .Values.config.bakeImage .Values.config.bakeImagePullPolicy) }}
- name: DAVIT_BAKE_IMAGE_PULL_POLICY
  value: {{ .Values.image.pullPolicy }}
{{- end }}
{{- $labels := include "davit.merged" (list .Values.commonLabels $bakes.podLabels) | fromYaml }}
{{- $json := dict
  "POD_SECURITY_CONTEXT" (include "davit.bakes.securityContextChanges" . | fromJson)
  "NODE_SELECTOR" $bakes.nodeSelector
  "TOLERATIONS" $bakes.tolerations
  "AFFINITY" $bakes.affinity
  "POD_LABELS" $labels
  "POD_ANNOTATIONS" $bakes.podAnnotations
}}
{{- range $name, $value := $json }}
{{- if $value }}
- name: DAVIT_BAKE_{{ $name }}
  value: {{ toJson $value | quote }}
{{- end }}
{{- end }}
{{- with $bakes.priorityClassName }}
- name: DAVIT_BAKE_PRIORITY_CLASS
  value: {{ . | quote }}
{{- end }}
{{- with $bakes.imagePullSecrets }}
- name: DAVIT_BAKE_IMAGE_PULL_SECRETS
  value: {{ include "davit.bakes.pullSecrets" $ | fromJsonArray | join "," | quote }}
{{- end }}
{{- end }}

{{- /* As a list in JSON. */}}
{{- define "davit.bakes.pullSecrets" -}}
{{- $names := list }}
{{- range .Values.bakes.imagePullSecrets }}{{ $names = append $names .name }}{{ end }}
{{- toJson $names }}
{{- end }}

{{- /* The most that a bake may use, as JSON. */}}
{{- define "davit.bakes.resources" -}}
{{- $config := .Values.config }}
{{- dict
  "cpu" ($config.bakeCpu | default "500m" | toString)
  "memory" ($config.bakeMemory | default "512Mi" | toString)
  "ephemeral-storage" ($config.bakeScratch | default "20Gi" | toString)
| toJson }}
{{- end }}

{{- define "davit.bakes.ownSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /* As JSON, without the fields that null does not take away, which are unset. */}}
{{- define "davit.bakes.securityContextChanges" -}}
{{- $own := include "davit.bakes.ownSecurityContext" . | fromYaml }}
{{- $changes := dict }}
{{- range $name, $value := .Values.bakes.podSecurityContext }}
{{- include "davit.dropNulls" $value }}
{{- if or (hasKey $own $name) (not (kindIs "invalid" $value)) }}{{ $_ := set $changes $name $value }}{{ end }}
{{- end }}
{{- toJson $changes }}
{{- end }}

{{- /* The whole of it as the controller makes it, as JSON. */}}
{{- define "davit.bakes.securityContext" -}}
{{- $context := include "davit.bakes.ownSecurityContext" . | fromYaml }}
{{- range $name, $value := include "davit.bakes.securityContextChanges" . | fromJson }}
{{- if kindIs "invalid" $value }}{{ $_ := unset $context $name }}{{ else }}{{ $_ := set $context $name $value }}{{ end }}
{{- end }}
{{- toJson $context }}
{{- end }}

{{- /* A value as an expression of CEL, whose maps and lists hold values of one type. */}}
{{- define "davit.cel" -}}
{{- $parts := list }}
{{- if kindIs "map" . }}
{{- range $name, $value := . }}
{{- if not (kindIs "invalid" $value) }}
{{- $parts = append $parts (printf "%s:dyn(%s)" (toJson $name) (include "davit.cel" $value)) }}
{{- end }}
{{- end }}
{{- printf "{%s}" (join "," $parts) }}
{{- else if kindIs "slice" . }}
{{- range . }}
{{- $parts = append $parts (printf "dyn(%s)" (include "davit.cel" .)) }}
{{- end }}
{{- printf "[%s]" (join "," $parts) }}
{{- else }}
{{- toJson . }}
{{- end }}
{{- end }}
