{{/* The arguments of the server. */}}

{{- define "fabric-injector.arguments" -}}
{{- $fullname := include "fabric-injector.fullname" . -}}
- serve
- --values=/etc/fabric-injector/values/values.yaml
{{- if include "fabric-injector.ownPolicies" . }}
{{- /* With `--policy`, the enabled provider no longer selects the built-in policy. */}}
{{- range $name, $policy := include "fabric-injector.enabledPolicies" . | fromJson }}
- --policy={{ $name }}
{{- end }}
- --policy=/etc/fabric-injector/policies
{{- end }}
{{- if eq (include "fabric-injector.certificates" .) "managed" }}
- --manage-webhook={{ $fullname }}
- --manage-secret={{ $fullname }}-tls
{{- if or .Values.advice.enabled .Values.policyReview.enabled }}
- --manage-advice={{ $fullname }}
{{- end }}
{{- else }}
- --tls-dir=/etc/fabric-injector/tls
{{- end }}
{{- if .Values.nodes.watch }}
- --watch-nodes
{{- with include "fabric-injector.unwatched" . }}
- --unwatched={{ . }}
{{- end }}
{{- if not .Values.nodes.networksOfOtherNamespaces }}
- --networks-of-other-namespaces=false
{{- end }}
{{- end }}
- --listen=0.0.0.0:{{ .Values.ports.webhook }}
- --admin-listen=0.0.0.0:{{ .Values.ports.admin }}
- --mode={{ .Values.webhook.mode }}
{{- if .Values.events.enabled }}
- --events
{{- end }}
{{- if .Values.server.clientCaBundle }}
- --client-ca=/etc/fabric-injector/values/clients.crt
{{- end }}
# The same response, whether injection fails or the API server reaches no replica.
- --on-error={{ eq (include "fabric-injector.failurePolicy" .) "Ignore" | ternary "allow" "deny" }}
{{- with .Values.server.log }}
- {{ printf "--log=%s" . | quote }}
{{- end }}
{{- range .Values.server.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* The annotations of a webhook configuration; empty if it has none. */}}
{{- define "fabric-injector.registrationAnnotations" -}}
{{- $fullname := include "fabric-injector.fullname" . -}}
{{- if eq (include "fabric-injector.certificates" .) "managed" -}}
# The replicas that share this Secret write `caBundle`, and do not change a configuration without this annotation.
# With another certificate, Helm removes it together with the CA, so that old replicas do not overwrite the new CA.
fabric-injector.io/certificate-secret: {{ $fullname }}-tls
{{ end -}}
{{- if .Values.certManager.enabled -}}
# The serving Certificate rather than that of the CA, so that `caBundle` is always the CA of the served certificate.
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ $fullname }}
{{ end -}}
{{- with .Values.webhook.annotations -}}
{{- toYaml . }}
{{- end -}}
{{- end -}}

{{/* The server as a webhook. Takes the root and the path in a map. */}}
{{- define "fabric-injector.clientConfig" -}}
service:
  name: {{ include "fabric-injector.fullname" .root | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  path: {{ .path }}
  port: 443
{{- if .root.Values.tls.secretName }}
caBundle: {{ .root.Values.tls.caBundle | b64enc }}
{{- else }}
# Without `caBundle`, which is set in the cluster: a value from the chart would overwrite it at every upgrade.
{{- end }}
{{- end -}}

{{/* In audit mode, no pod depends on the webhook: a failed call must not reject one either. */}}
{{- define "fabric-injector.failurePolicy" -}}
{{- if eq .Values.webhook.mode "audit" -}}Ignore{{- else -}}{{- .Values.webhook.failurePolicy -}}{{- end -}}
{{- end -}}

{{/* Empty if there is no guard. In audit mode, it would report every pod. */}}
{{- define "fabric-injector.hasGuard" -}}
{{- if and .Values.guard.enabled (ne .Values.webhook.mode "audit") -}}true{{- end -}}
{{- end -}}

{{/* The kinds of objects that servers do not watch, with commas between them. */}}
{{- define "fabric-injector.unwatched" -}}
{{- $unwatched := list -}}
{{- range $name, $watched := .Values.nodes.objects }}{{ if not $watched }}{{ $unwatched = append $unwatched $name }}{{ end }}{{ end -}}
{{- join "," $unwatched -}}
{{- end -}}

{{/* The rights for the objects that pods name. Takes the root and the verbs. */}}
{{- define "fabric-injector.objectRules" -}}
{{- $apis := dict "compute-domains" (list "resource.nvidia.com" "computedomains")
      "device-classes" (list "resource.k8s.io" "deviceclasses")
      "gke-networks" (list "networking.gke.io" "networks")
      "network-attachment-definitions" (list "k8s.cni.cncf.io" "network-attachment-definitions")
      "resource-claim-templates" (list "resource.k8s.io" "resourceclaimtemplates")
      "resource-claims" (list "resource.k8s.io" "resourceclaims") -}}
{{- range $name, $watched := (first .).Values.nodes.objects }}
{{- if $watched }}
{{- $api := get $apis $name }}
- apiGroups: [{{ first $api }}]
  resources: [{{ last $api }}]
  verbs: [{{ last $ }}]
{{- end }}
{{- end }}
{{- end -}}
