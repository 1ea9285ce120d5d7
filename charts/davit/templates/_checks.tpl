{{- /* What the chart rejects: the API server would reject it in the middle of an installation, or it would silently have no effect. */}}

{{- define "davit.checks" -}}
{{- include "davit.checkLabels" . }}
{{- include "davit.checkServiceAccounts" . }}
{{- include "davit.checkEncryption" . }}
{{- include "davit.checkBakes" . }}
{{- include "davit.checkTwice" (dict "value" "imagePullSecrets" "list" .Values.imagePullSecrets "keys" (list "name")) }}
{{- include "davit.checkTwice" (dict "value" "bakes.imagePullSecrets" "list" .Values.bakes.imagePullSecrets "keys" (list "name")) }}
{{- range $role, $values := dict "controller" .Values.controller "api" .Values.api }}
{{- $of := dict "root" $ "role" $role "values" $values }}
{{- $settings := include "davit.settings" $of | fromYamlArray }}
{{- $volumes := include "davit.volumes" $of | fromYamlArray }}
{{- $mounts := include "davit.volumeMounts" $of | fromYamlArray }}
{{- $twice := list
  (dict "value" "extraEnv" "list" $values.extraEnv "keys" (list "name") "own" $settings)
  (dict "value" "extraVolumes" "list" $values.extraVolumes "keys" (list "name") "own" $volumes)
  (dict "value" "extraVolumeMounts" "list" $values.extraVolumeMounts "keys" (list "mountPath") "own" $mounts)
  (dict "value" "topologySpreadConstraints" "list" $values.topologySpreadConstraints "keys" (list "topologyKey" "whenUnsatisfiable"))
}}
{{- range $twice }}
{{- include "davit.checkTwice" (merge (dict "root" $ "value" (printf "%s.%s" $role .value)) .) }}
{{- end }}
{{- if and (eq $.Values.aws.identity "irsa") (hasKey $values.serviceAccount.annotations "eks.amazonaws.com/role-arn") }}
{{- fail (printf "%s.serviceAccount.annotations: must not contain eks.amazonaws.com/role-arn, which aws.identity sets" $role) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The API server takes each key of such a list once. `own` is what the chart has in it; needs `root` then. */}}
{{- define "davit.checkTwice" -}}
{{- $of := . }}
{{- $own := dict }}
{{- range .own }}
{{- $_ := set $own (include "davit.listKey" (dict "item" . "keys" $of.keys)) .name }}
{{- end }}
{{- $seen := dict }}
{{- range .list }}
{{- $key := include "davit.listKey" (dict "item" . "keys" $of.keys) }}
{{- if hasKey $own $key }}
{{- fail (printf "%s: must not contain %s, which %s sets" $of.value $key (include "davit.setBy" (dict "root" $of.root "name" (get $own $key)))) }}
{{- end }}
{{- if hasKey $seen $key }}
{{- fail (printf "%s: must not contain %s twice" $of.value $key) }}
{{- end }}
{{- $_ := set $seen $key true }}
{{- end }}
{{- end }}

{{- /* Two spellings of a path are one. */}}
{{- define "davit.listKey" -}}
{{- $item := .item }}
{{- range $index, $key := .keys }}
{{- if $index }} {{ end }}
{{- if eq $key "mountPath" }}{{ clean $item.mountPath }}{{ else }}{{ index $item $key }}{{ end }}
{{- end }}
{{- end }}

{{- /* The value from which a pod has a variable or a volume; a dict with `root` and `name`. */}}
{{- define "davit.setBy" -}}
{{- $values := .root.Values }}
{{- $by := dict
  "DAVIT_API_CERTIFICATE_FILE" "api.tls.enabled"
  "DAVIT_API_KEY_FILE" "api.tls.enabled"
  "DAVIT_BAKE_IMAGE" "bakes.enabled"
  "DAVIT_BAKE_IMAGE_PULL_POLICY" "image.pullPolicy"
  "DAVIT_BAKE_IMAGE_PULL_SECRETS" "bakes.imagePullSecrets"
  "DAVIT_BAKE_POD_SECURITY_CONTEXT" "bakes.podSecurityContext"
  "DAVIT_BAKE_NODE_SELECTOR" "bakes.nodeSelector"
  "DAVIT_BAKE_TOLERATIONS" "bakes.tolerations"
  "DAVIT_BAKE_AFFINITY" "bakes.affinity"
  "DAVIT_BAKE_PRIORITY_CLASS" "bakes.priorityClassName"
  "DAVIT_BAKE_POD_LABELS" "bakes.podLabels"
  "DAVIT_BAKE_POD_ANNOTATIONS" "bakes.podAnnotations"
  "DAVIT_SMTP_URL" "smtp.existingSecret"
  "DAVIT_EXTRA_CA_FILE" "extraCa.configMap"
  "AWS_REGION" "aws.region"
  "AWS_ROLE_ARN" "aws.identity"
  "AWS_WEB_IDENTITY_TOKEN_FILE" "aws.identity"
  "ca" "extraCa.configMap"
  "tls" "api.tls.enabled"
  "aws-token" "aws.identity"
}}
{{- range $name, $value := $values.config }}
{{- if not (kindIs "invalid" $value) }}
{{- $_ := set $by (include "davit.variable" $name) (printf "config.%s" $name) }}
{{- end }}
{{- end }}
{{- if not $values.config.allowedHosts }}
{{- $_ := set $by "DAVIT_ALLOWED_HOSTS" (ternary "clusterReceivers" "helmTest.delivery" (not (empty $values.clusterReceivers))) }}
{{- end }}
{{- get $by .name | default "the chart" }}
{{- end }}

{{- /* By these labels the Deployments, Services and policies find Pods, and Davit and Kubernetes find objects. */}}
{{- define "davit.checkLabels" -}}
{{- $selecting := keys (include "davit.selector" (dict "root" . "role" "") | fromYaml) }}
{{- range $value, $labels := dict "commonLabels" .Values.commonLabels "controller.podLabels" .Values.controller.podLabels "api.podLabels" .Values.api.podLabels "bakes.podLabels" .Values.bakes.podLabels }}
{{- range $key, $_ := $labels }}
{{- if or (has $key $selecting) (hasPrefix "davit.dev/" $key) (hasPrefix "rbac.authorization.k8s.io/" $key) }}
{{- fail (printf "%s: must not contain %s, which the chart sets" $value $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- if hasKey .Values.metrics.prometheusRule.alertLabels "severity" }}
{{- fail "metrics.prometheusRule.alertLabels: must not contain severity, which the chart sets" }}
{{- end }}
{{- end }}

{{- /* RBAC and the admission policies tell the Pods apart by their ServiceAccounts, whether the chart creates these or not. */}}
{{- define "davit.checkServiceAccounts" -}}
{{- $own := list (include "davit.test.name" .) }}
{{- range list "stop" "cleanup" }}
{{- $own = append $own (include "davit.hook.name" (dict "root" $ "role" .)) }}
{{- end }}
{{- $controller := include "davit.controller.serviceAccount" . }}
{{- $api := include "davit.api.serviceAccount" . }}
{{- if eq $controller $api }}
{{- fail (printf "controller.serviceAccount.name and api.serviceAccount.name must differ: with the one ServiceAccount %s, the controller and the REST API would have each other's permissions" $api) }}
{{- end }}
{{- range $role, $name := dict "controller" $controller "api" $api }}
{{- if has $name $own }}
{{- fail (printf "%s.serviceAccount.name must not be %s: the chart creates and deletes a ServiceAccount with this name for a Job or a test" $role $name) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "davit.checkEncryption" -}}
{{- $api := .Values.api }}
{{- $why := "otherwise, API tokens and registry secrets cross the network unencrypted" }}
{{- if not $api.allowUnencrypted }}
{{- if and (ne $api.service.type "ClusterIP") (not $api.tls.enabled) }}
{{- fail (printf "api.service.type %s requires api.tls.enabled: %s. If a load balancer or a proxy terminates TLS, set api.allowUnencrypted to true" $api.service.type $why) }}
{{- end }}
{{- if $api.ingress.enabled }}
{{- $names := list }}
{{- range $api.ingress.tls }}
{{- $names = concat $names .hosts }}
{{- end }}
{{- range $api.ingress.hosts }}
{{- /* A certificate for *.example.com is for one label in front of the rest. */}}
{{- $parent := regexReplaceAll "^[^.]+" .host "*" }}
{{- if not (or (has .host $names) (has $parent $names)) }}
{{- fail (printf "api.ingress.tls must contain the host %s: %s. If the Ingress controller terminates TLS by other means, set api.allowUnencrypted to true" .host $why) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The controller would not start. */}}
{{- define "davit.checkBakes" -}}
{{- $fields := list "runAsUser" "runAsGroup" "runAsNonRoot" "fsGroup" "fsGroupChangePolicy" "supplementalGroups" "supplementalGroupsPolicy" "seLinuxOptions" "seLinuxChangePolicy" "seccompProfile" "appArmorProfile" }}
{{- range $name, $value := .Values.bakes.podSecurityContext }}
{{- $isBad := not (or (has $name $fields) (kindIs "invalid" $value)) }}
{{- if eq $name "runAsUser" }}{{ $isBad = and (not (kindIs "invalid" $value)) (eq (toString $value) "0") }}{{ end }}
{{- if eq $name "runAsNonRoot" }}{{ $isBad = eq (toString $value) "false" }}{{ end }}
{{- if kindIs "map" $value }}{{ $isBad = or $isBad (eq (get $value "type" | toString) "Unconfined") }}{{ end }}
{{- if $isBad }}
{{- fail (printf "bakes.podSecurityContext: must not contain %s: %s. Allowed are %s, without privileges" $name (toJson $value) (join ", " $fields)) }}
{{- end }}
{{- end }}
{{- end }}
