{{- /*
Networks that are not public, as Davit itself has them (src/net/egress-policy.ts). A test compares the two.
All public addresses of IPv6 are in 2000::/3. In addition, clusters without IPv4 reach an IPv4 address through a gateway (NAT64), at
64:ff9b::/96, of which only the forms of the IPv4 networks are excluded.
*/}}

{{- define "davit.special4" -}}
- 0.0.0.0/8
- 10.0.0.0/8
- 100.64.0.0/10
- 127.0.0.0/8
- 168.63.129.16/32 # services of Azure for its machines
- 169.254.0.0/16
- 172.16.0.0/12
- 192.0.0.0/24
- 192.0.2.0/24
- 192.31.196.0/24
- 192.52.193.0/24
- 192.88.99.0/24
- 192.168.0.0/16
- 192.175.48.0/24
- 198.18.0.0/15
- 198.51.100.0/24
- 203.0.113.0/24
- 224.0.0.0/4
- 240.0.0.0/4
{{- end }}

{{- define "davit.special6" -}}
{{- /* Up to 2000::/3, without 64:ff9b::/96; the rest of 64::/16 is not assigned. */ -}}
- ::/10
- 40::/11
- 60::/14
- 64:ff9b:1::/48
- 65::/16
- 66::/15
- 68::/13
- 70::/12
- 80::/9
- 100::/8
- 200::/7
- 400::/6
- 800::/5
- 1000::/4
# Within 2000::/3.
- 2001::/23
- 2001:db8::/32
- 2002::/16
- 2620:4f:8000::/48
- 3fff::/20
# After it, with unique local, link-local and multicast addresses.
- 4000::/2
- 8000::/1
{{- end }}

{{- /* The form of an IPv4 network in NAT64. */}}
{{- define "davit.nat64" -}}
{{- $parts := splitList "/" . }}
{{- $bytes := splitList "." (first $parts) }}
{{- $high := add (mul (index $bytes 0 | int) 256) (index $bytes 1 | int) }}
{{- $low := add (mul (index $bytes 2 | int) 256) (index $bytes 3 | int) }}
{{- $host := "" }}
{{- if $high }}
{{- $host = printf "%x:%x" $high $low }}
{{- else if $low }}
{{- $host = printf "%x" $low }}
{{- end }}
{{- printf "64:ff9b::%s/%d" $host (add 96 (last $parts | int)) }}
{{- end }}

{{- /* Peers of a NetworkPolicy: all public addresses, except for the networks of the list. */}}
{{- define "davit.publicPeers" -}}
{{- $not4 := include "davit.special4" . | fromYamlArray }}
{{- $not6 := include "davit.special6" . | fromYamlArray }}
{{- range . }}
{{- if contains ":" . }}
{{- $not6 = append $not6 . }}
{{- else }}
{{- $not4 = append $not4 . }}
{{- end }}
{{- end }}
{{- range $not4 }}
{{- $not6 = append $not6 (include "davit.nat64" .) }}
{{- end }}
{{- /* Kubernetes takes no exception that is the whole. */}}
{{- if not (has "0.0.0.0/0" $not4) }}
- ipBlock:
    cidr: 0.0.0.0/0
    except:
      {{- toYaml (uniq $not4) | nindent 6 }}
{{- end }}
{{- if not (has "::/0" $not6) }}
- ipBlock:
    cidr: "::/0"
    except:
      {{- toYaml (uniq $not6) | nindent 6 }}
{{- end }}
{{- end }}

{{- /*
The rules for DNS and for the API server, which every Pod has that needs both. A rule without peers would be one for all destinations,
so there is none then.
*/}}
{{- define "davit.dnsEgress" -}}
{{- with .Values.networkPolicy.dns }}
- to:
    {{- toYaml . | nindent 4 }}
  ports:
    {{- range $.Values.networkPolicy.dnsPorts }}
    - { port: {{ int . }}, protocol: UDP }
    - { port: {{ int . }}, protocol: TCP }
    {{- end }}
{{- end }}
{{- end }}

{{- define "davit.apiServerEgress" -}}
{{- with .Values.networkPolicy.apiServer }}
- to:
    {{- toYaml . | nindent 4 }}
  ports:
    {{- range $.Values.networkPolicy.apiServerPorts }}
    - port: {{ int . }}
    {{- end }}
{{- end }}
{{- end }}

{{- define "davit.awsPorts" -}}
{{- range .Values.networkPolicy.awsPorts }}
- port: {{ int . }}
{{- end }}
{{- end }}
