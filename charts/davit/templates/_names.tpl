{{- /* What objects are called, and how they are labelled. */}}

{{- /* The prefix of all names, also of Services: without dots, which the name of a release may have, and with a letter first. */}}
{{- define "davit.fullname" -}}
{{- $release := .Release.Name | replace "." "-" }}
{{- $name := .Values.nameOverride | default "davit" }}
{{- $full := contains $name $release | ternary $release (printf "%s-%s" $release $name) }}
{{- if .Values.fullnameOverride }}
{{- $full = .Values.fullnameOverride }}
{{- else if regexMatch "^[0-9]" $full }}
{{- fail (printf "the release name %s starts with a digit, which the name of a Service must not: set fullnameOverride, or choose another release name" .Release.Name) }}
{{- end }}
{{- regexReplaceAll "-+$" (trunc 40 $full) "" }}
{{- end }}

{{- define "davit.controller.name" -}}
{{ include "davit.fullname" . }}-controller
{{- end }}

{{- define "davit.api.name" -}}
{{ include "davit.fullname" . }}-api
{{- end }}

{{- define "davit.controller.serviceAccount" -}}
{{ .Values.controller.serviceAccount.name | default (include "davit.controller.name" .) }}
{{- end }}

{{- define "davit.api.serviceAccount" -}}
{{ .Values.api.serviceAccount.name | default (include "davit.api.name" .) }}
{{- end }}

{{- /* One map of several, a later one before an earlier one. `merge` and `mergeOverwrite` take no 0, false or "" for a value. */}}
{{- define "davit.merged" -}}
{{- $all := dict }}
{{- range . }}
{{- range $key, $value := . }}
{{- $_ := set $all $key $value }}
{{- end }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{- define "davit.labels" -}}
{{- $own := dict
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_")
  "app.kubernetes.io/name" "davit"
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "app.kubernetes.io/part-of" "davit"
}}
{{- include "davit.merged" (list $own .Values.commonLabels) }}
{{- end }}

{{- /* Of a pod of one role; a dict with `root`, `role` and `more`. */}}
{{- define "davit.podLabels" -}}
{{- $version := dict "app.kubernetes.io/version" .root.Chart.AppVersion }}
{{- $selector := include "davit.selector" . | fromYaml }}
{{- include "davit.merged" (list $version .root.Values.commonLabels .more $selector) }}
{{- end }}

{{- /* Of one role; a dict with `root` and `role`. */}}
{{- define "davit.selector" -}}
app.kubernetes.io/name: davit
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{- /* The environment variable of a setting in `config`. */}}
{{- define "davit.variable" -}}
{{- if not (hasPrefix "aws" .) }}DAVIT_{{ end }}{{ snakecase . | upper }}
{{- end }}

{{- /* A size such as 256Mi, or a number of bytes, as a number of bytes. */}}
{{- define "davit.bytes" -}}
{{- if kindIs "string" . }}
{{- $number := regexFind "^[0-9]+" . | int64 }}
{{- $units := dict "" 1 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- mul $number (get $units (regexFind "[A-Za-z]*$" .) | int64) }}
{{- else }}
{{- int64 . }}
{{- end }}
{{- end }}

{{- /* How long a stop of a Pod waits for work in progress, in seconds. */}}
{{- define "davit.shutdownSeconds" -}}
{{- $epoch := toDate "2006-01-02" "1970-01-02" }}
{{- $end := dateModify (.Values.config.shutdownTimeout | default "25s") $epoch }}
{{- sub (unixEpoch $end | int64) (unixEpoch $epoch | int64) }}
{{- end }}

{{- /* Whether `helm test` asks the REST API: by the name of its Service, which a certificate must then have. */}}
{{- define "davit.test.asksApi" -}}
{{- $tls := .Values.api.tls }}
{{- if or (not $tls.enabled) (and $tls.certManager.enabled $tls.certManager.internalNames) }}true{{ end }}
{{- end }}

{{- /* Whether it also sends a webhook to its own Pod. */}}
{{- define "davit.test.delivers" -}}
{{- if and .Values.helmTest.delivery (include "davit.test.asksApi" .) }}true{{ end }}
{{- end }}

{{- define "davit.test.name" -}}
{{ include "davit.fullname" . }}-check
{{- end }}

{{- /* The namespace that exists only during the test. Helm first deletes a namespace of this name, so the name has to be unique. */}}
{{- define "davit.test.organization" -}}
{{- $full := include "davit.fullname" . }}
{{- printf "%s-test-%s" $full (printf "%s/%s" .Release.Namespace $full | sha256sum | trunc 8) }}
{{- end }}

{{- define "davit.test.host" -}}
{{ include "davit.test.name" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{- /* The hosts that webhooks may reach at private addresses, with commas between. */}}
{{- define "davit.allowedHosts" -}}
{{- $root := . }}
{{- $hosts := .Values.config.allowedHosts | default list }}
{{- range .Values.clusterReceivers }}
{{- $short := printf "%s.%s.svc" .service .namespace }}
{{- $hosts = concat $hosts (list $short (printf "%s.%s" $short $root.Values.clusterDomain)) }}
{{- end }}
{{- if include "davit.test.delivers" . }}
{{- $hosts = append $hosts (include "davit.test.host" .) }}
{{- end }}
{{- join "," (uniq $hosts) }}
{{- end }}

{{- define "davit.image" -}}
{{- $image := .Values.image }}
{{- if not $image.repository }}
{{- fail "image.repository is required. No image of Davit is published yet: build one as described in docs/guides/build-the-image.md, push it to your registry, and set its name, for example --set image.repository=registry.example.com/davit" }}
{{- end }}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- /* What bakes run; empty: nothing is baked. */}}
{{- define "davit.bakeImage" -}}
{{- if .Values.config.bakeImage }}
{{- .Values.config.bakeImage }}
{{- else if .Values.bakes.enabled }}
{{- include "davit.image" . }}
{{- end }}
{{- end }}

{{- /* The same without tag and digest. */}}
{{- define "davit.bakeRepository" -}}
{{- regexReplaceAll "(:[^/@]*)?(@.*)?$" (include "davit.bakeImage" .) "" }}
{{- end }}

{{- /* Where bakes may be told that AWS is, as a list in JSON. */}}
{{- define "davit.awsEndpoints" -}}
{{- $config := .Values.config -}}
{{ list $config.awsEndpointUrl $config.awsEndpointUrlEcr $config.awsEndpointUrlSsm $config.awsEndpointUrlSts | compact | uniq | toJson }}
{{- end }}

{{- /* The one ConfigMap of organizations that bakes mount; empty: none. */}}
{{- define "davit.bakeCa" -}}
{{- with .Values.config.bakeCaConfigMap }}{{ splitList "/" . | first }}{{ end }}
{{- end }}

{{- /* The Secret with the certificate of the REST API. */}}
{{- define "davit.api.tlsSecret" -}}
{{ .Values.api.tls.secretName | default (printf "%s-tls" (include "davit.api.name" .)) }}
{{- end }}

{{- define "davit.api.servicePort" -}}
{{ .Values.api.service.port | default (ternary 443 80 .Values.api.tls.enabled) }}
{{- end }}
