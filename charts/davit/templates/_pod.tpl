{{- /* What the pods of both roles have. Each takes a dict with `root`, `role` (controller or api) and `values` (of the role). */}}

{{- define "davit.settings" -}}
{{- $root := .root }}
{{- $any := ternary "[::]" "0.0.0.0" (eq $root.Values.ipFamily "IPv6") }}
- name: DAVIT_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
# No other pod ever has it, and a container that starts again in its pod takes up its work at once.
- name: DAVIT_REPLICA
  valueFrom:
    fieldRef:
      fieldPath: metadata.uid
- name: DAVIT_OPS_ADDRESS
  value: "{{ $any }}:9090"
{{- if eq .role "api" }}
- name: DAVIT_API_ADDRESS
  value: "{{ $any }}:8080"
{{- /* Requests leave much garbage. V8 gives new objects two to three semi-spaces of 1/64 of the memory each; with twice that, it
collects half as often. The heap then takes up to 60 % (see the Dockerfile) and 3/32 of the limit, 711 MiB of 1 GiB. The rest holds
bodies on their way (64 MiB), the program (about 60 MiB), and sockets. */}}
{{- $limits := (.values.resources | default dict).limits | default dict }}
{{- $memory := include "davit.bytes" ($limits.memory | default 0) | int64 }}
{{- $semiSpace := min 64 (div $memory 33554432) | int64 }}
{{- $isSet := false }}
{{- range .values.extraEnv }}{{ if eq .name "NODE_OPTIONS" }}{{ $isSet = true }}{{ end }}{{ end }}
{{- if and $semiSpace (not $isSet) }}
- name: NODE_OPTIONS
  value: --max-semi-space-size={{ $semiSpace }}
{{- end }}
{{- if $root.Values.api.tls.enabled }}
- name: DAVIT_API_CERTIFICATE_FILE
  value: /etc/davit/tls/tls.crt
- name: DAVIT_API_KEY_FILE
  value: /etc/davit/tls/tls.key
{{- end }}
{{- end }}
{{- /* Numbers of values are floats: large ones must not become 1e+09. Lists are joined. */}}
{{- range $name, $value := $root.Values.config }}
{{- $isOff := and (eq $name "bakeImage") (not $root.Values.bakes.enabled) }}
{{- if not (or $isOff (eq $name "allowedHosts") (kindIs "invalid" $value)) }}
- name: {{ include "davit.variable" $name }}
  value: {{ if kindIs "slice" $value }}{{ join "," $value | quote }}{{ else if and (kindIs "float64" $value) (eq (floor $value) $value) }}{{ int64 $value | quote }}{{ else }}{{ toString $value | quote }}{{ end }}
{{- end }}
{{- end }}
{{- with include "davit.allowedHosts" $root }}
- name: DAVIT_ALLOWED_HOSTS
  value: {{ . | quote }}
{{- end }}
{{- if eq .role "controller" }}
{{- if not $root.Values.config.bakeImage }}
{{- with include "davit.bakeImage" $root }}
- name: DAVIT_BAKE_IMAGE
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- if $root.Values.bakes.enabled }}
{{- with include "davit.bakes.settings" $root | trim }}
{{ . }}
{{- end }}
{{- end }}
{{- with $root.Values.smtp.existingSecret }}
- name: DAVIT_SMTP_URL
  valueFrom:
    secretKeyRef:
      name: {{ . | quote }}
      key: {{ $root.Values.smtp.key | quote }}
{{- end }}
{{- end }}
{{- if $root.Values.extraCa.configMap }}
- name: DAVIT_EXTRA_CA_FILE
  value: /etc/davit/ca/{{ $root.Values.extraCa.key }}
{{- end }}
{{- with $root.Values.aws.region }}
- name: AWS_REGION
  value: {{ . | quote }}
{{- end }}
{{- if eq $root.Values.aws.identity "web-identity" }}
- name: AWS_ROLE_ARN
  value: {{ include "davit.roleArn" . | quote }}
- name: AWS_WEB_IDENTITY_TOKEN_FILE
  value: /var/run/secrets/sts.amazonaws.com/token
{{- end }}
{{- end }}

{{- define "davit.roleArn" -}}
{{- $arn := .values.roleArn | default .root.Values.aws.roleArn }}
{{- if not $arn }}{{ fail (printf "aws.identity %s requires aws.roleArn or %s.roleArn" .root.Values.aws.identity .role) }}{{ end }}
{{- $arn }}
{{- end }}

{{- define "davit.volumes" -}}
{{- $root := .root }}
{{- if $root.Values.extraCa.configMap }}
- name: ca
  configMap:
    name: {{ $root.Values.extraCa.configMap | quote }}
{{- end }}
{{- if and (eq .role "api") $root.Values.api.tls.enabled }}
- name: tls
  secret:
    secretName: {{ include "davit.api.tlsSecret" $root | quote }}
    # The group of the image's user.
    defaultMode: 0440
{{- end }}
{{- if eq $root.Values.aws.identity "web-identity" }}
- name: aws-token
  projected:
    sources:
      - serviceAccountToken:
          audience: sts.amazonaws.com
          expirationSeconds: 3600
          path: token
{{- end }}
{{- end }}

{{- define "davit.volumeMounts" -}}
{{- $root := .root }}
{{- if $root.Values.extraCa.configMap }}
- name: ca
  mountPath: /etc/davit/ca
  readOnly: true
{{- end }}
{{- if and (eq .role "api") $root.Values.api.tls.enabled }}
- name: tls
  mountPath: /etc/davit/tls
  readOnly: true
{{- end }}
{{- if eq $root.Values.aws.identity "web-identity" }}
- name: aws-token
  mountPath: /var/run/secrets/sts.amazonaws.com
  readOnly: true
{{- end }}
{{- end }}

{{- define "davit.podSecurityContext" -}}
{{- $own := dict
  "runAsNonRoot" true
  "runAsUser" 65532
  "runAsGroup" 65532
  "fsGroup" 65532
  "seccompProfile" (dict "type" "RuntimeDefault")
}}
{{- include "davit.merged" (list $own .Values.podSecurityContext) }}
{{- end }}

{{- define "davit.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* How a pod comes to a node; a dict with `root` and `values`. */}}
{{- define "davit.placement" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}

{{- /* The whole of a Deployment. */}}
{{- define "davit.deployment" -}}
{{- $root := .root }}
{{- $drain := include "davit.shutdownSeconds" $root | int }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include (printf "davit.%s.name" .role) $root }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels:
    {{- include "davit.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
spec:
  {{- if .fixed }}
  replicas: {{ .values.replicas }}
  {{- end }}
  revisionHistoryLimit: {{ $root.Values.revisionHistoryLimit }}
  # A new pod is ready before an old one ends: its work is taken over by those that are left, and by it.
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
  selector:
    matchLabels:
      {{- include "davit.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "davit.podLabels" (dict "root" $root "role" .role "more" .values.podLabels) | nindent 8 }}
      annotations:
        {{- $own := dict "kubectl.kubernetes.io/default-container" "davit" }}
        {{- include "davit.merged" (list $own .values.podAnnotations) | nindent 8 }}
    spec:
      serviceAccountName: {{ include (printf "davit.%s.serviceAccount" .role) $root | quote }}
      automountServiceAccountToken: true
      # Variables of Services that look like settings.
      enableServiceLinks: false
      # Longer than what a stop waits for, and writes then.
      terminationGracePeriodSeconds: {{ add $drain 15 }}
      {{- with include "davit.placement" . | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      securityContext:
        {{- include "davit.podSecurityContext" $root | nindent 8 }}
      containers:
        - name: davit
          image: {{ include "davit.image" $root | quote }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: [{{ .role }}]
          env:
            {{- include "davit.settings" . | trim | nindent 12 }}
            {{- with .values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            {{- if eq .role "api" }}
            - name: {{ ternary "https" "http" $root.Values.api.tls.enabled }}
              containerPort: 8080
            {{- end }}
            - name: ops
              containerPort: 9090
          startupProbe:
            httpGet: { path: /healthz, port: ops }
            periodSeconds: 2
            failureThreshold: 60
          livenessProbe:
            httpGet: { path: /healthz, port: ops }
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet: { path: /readyz, port: ops }
            periodSeconds: 5
            timeoutSeconds: 3
            failureThreshold: 2
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          securityContext:
            {{- include "davit.securityContext" $root | nindent 12 }}
          {{- with concat (include "davit.volumeMounts" . | fromYamlArray) .values.extraVolumeMounts }}
          volumeMounts:
            {{- toYaml . | nindent 12 }}
          {{- end }}
      {{- with concat (include "davit.volumes" . | fromYamlArray) .values.extraVolumes }}
      volumes:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        {{- if kindIs "invalid" .values.topologySpreadConstraints }}
        {{- $selector := include "davit.selector" . }}
        {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
        - topologyKey: {{ $key }}
          maxSkew: 1
          whenUnsatisfiable: ScheduleAnyway
          matchLabelKeys: [pod-template-hash]
          labelSelector:
            matchLabels:
              {{- $selector | nindent 14 }}
        {{- end }}
        {{- else }}
        {{- toYaml .values.topologySpreadConstraints | nindent 8 }}
        {{- end }}
      {{- with .values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end }}
