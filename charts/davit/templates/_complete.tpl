{{- /*
Gives values that are missing or null their defaults. Every template starts with it, since all of them share the values, and no order
of the templates is promised. Values are missing if they are null, as is a section in which every line is a comment, or if an upgrade
reuses the values of an older chart. An object whose keys users choose is then empty, because `{}` would not take its default away.
*/}}
{{- define "davit.complete" -}}
{{- $values := .Values }}
{{- range (.Files.Get "files/defaults.yaml" | fromYaml).sections }}
{{- $section := $values }}
{{- $isNew := false }}
{{- range .path }}
{{- if kindIs "invalid" (index $section .) }}
{{- $_ := set $section . dict }}
{{- $isNew = true }}
{{- end }}
{{- $section = index $section . }}
{{- end }}
{{- range $name, $default := .values }}
{{- if kindIs "invalid" (index $section $name) }}
{{- $_ := set $section $name (ternary dict $default (and (kindIs "map" $default) (not $isNew))) }}
{{- end }}
{{- /* In a security context, null takes away what the chart sets. */}}
{{- if ne $name "podSecurityContext" }}
{{- include "davit.dropNulls" (index $section $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Removes the keys that have no value from a map, and from all maps in a map or a list. */}}
{{- define "davit.dropNulls" -}}
{{- $all := . }}
{{- if or (kindIs "map" .) (kindIs "slice" .) }}
{{- range $key, $value := . }}
{{- if not (kindIs "invalid" $value) }}
{{- include "davit.dropNulls" $value }}
{{- else if kindIs "map" $all }}
{{- $_ := unset $all $key }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
