{{- /* What the Jobs around an uninstall have. Each takes a dict with `root`, `role` (stop or cleanup) and `hook`. */}}

{{- define "davit.hook.name" -}}
{{ include "davit.fullname" .root }}-{{ .role }}
{{- end }}

{{- /* Of what a Job needs: there before it, and gone with it, however it ends. */}}
{{- define "davit.hook.metadata" -}}
labels:
  {{- include "davit.labels" .root | nindent 2 }}
annotations:
  helm.sh/hook: {{ .hook }}
  helm.sh/hook-weight: "-1"
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end }}

{{- define "davit.hook.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "davit.hook.name" . }}
  namespace: {{ .root.Release.Namespace | quote }}
  {{- include "davit.hook.metadata" . | nindent 2 }}
automountServiceAccountToken: false
{{- end }}

{{- define "davit.hook.roleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ include "davit.hook.name" . }}
  namespace: {{ .root.Release.Namespace | quote }}
  {{- include "davit.hook.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "davit.hook.name" . }}
subjects:
  - kind: ServiceAccount
    name: {{ include "davit.hook.name" . }}
    namespace: {{ .root.Release.Namespace | quote }}
{{- end }}

{{- /* Also takes `drain`: Pods have 15 seconds more than that to end, and a node needs time to pull the image. */}}
{{- define "davit.hook.job" -}}
{{- $root := .root }}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ include "davit.hook.name" . }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels:
    {{- include "davit.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
  annotations:
    helm.sh/hook: {{ .hook }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  backoffLimit: 3
  activeDeadlineSeconds: {{ add .drain 215 }}
  template:
    metadata:
      labels:
        {{- include "davit.podLabels" (dict "root" $root "role" .role "more" (dict)) | nindent 8 }}
    spec:
      restartPolicy: Never
      serviceAccountName: {{ include "davit.hook.name" . }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      securityContext:
        {{- include "davit.podSecurityContext" $root | nindent 8 }}
      {{- with include "davit.placement" (dict "root" $root "values" $root.Values.controller) | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      containers:
        - name: {{ .role }}
          image: {{ include "davit.image" $root | quote }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: [{{ .role }}]
          env:
            - name: DAVIT_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
            - name: DAVIT_RELEASE
              value: {{ $root.Release.Name | quote }}
            - name: DAVIT_RELEASE_DEPLOYMENTS
              value: {{ printf "%s,%s" (include "davit.controller.name" $root) (include "davit.api.name" $root) }}
            - name: DAVIT_RELEASE_TIMEOUT
              value: "{{ add .drain 30 }}s"
          resources:
            requests: { cpu: 50m, memory: 128Mi }
            limits: { memory: 256Mi }
          securityContext:
            {{- include "davit.securityContext" $root | nindent 12 }}
{{- end }}
