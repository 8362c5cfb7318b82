{{/* The arguments of the server. */}}

{{- define "fabric-injector.arguments" -}}
{{- $fullname := include "fabric-injector.fullname" . -}}
- serve
- --values=/etc/fabric-injector/values/values.yaml
{{- if or .Values.extraPolicies .Values.extraPoliciesConfigMap }}
{{- /* With `--policy`, the enabled provider no longer selects the built-in policy. */}}
{{- range $name, $policy := include "fabric-injector.enabledPolicy" . | fromJson }}
- --policy={{ $name }}
{{- end }}
- --policy=/etc/fabric-injector/policies
{{- end }}
{{- if eq (include "fabric-injector.certificates" .) "managed" }}
- --manage-webhook={{ $fullname }}
- --manage-secret={{ $fullname }}-tls
- --certificate-duration={{ .Values.certificates.duration }}
- --ca-duration={{ .Values.certificates.caDuration }}
- --ca-overlap={{ .Values.certificates.caOverlap }}
{{- else }}
- --tls-dir=/etc/fabric-injector/tls
{{- end }}
{{- if .Values.nodes.watch }}
- --watch-nodes
{{- end }}
- --listen=0.0.0.0:{{ .Values.ports.webhook }}
- --admin-listen=0.0.0.0:{{ .Values.ports.admin }}
- --mode={{ .Values.webhook.mode }}
{{- if .Values.server.clientCaBundle }}
- --client-ca=/etc/fabric-injector/values/clients.crt
{{- end }}
# The same response, whether injection fails or the API server reaches no replica.
- --on-error={{ eq (include "fabric-injector.failurePolicy" .) "Ignore" | ternary "allow" "deny" }}
- --shutdown-delay={{ .Values.server.shutdownDelaySeconds }}s
- --drain-timeout={{ .Values.server.drainTimeoutSeconds }}s
{{- with .Values.server.log }}
- {{ printf "--log=%s" . | quote }}
{{- end }}
{{- range .Values.server.extraArgs }}
- {{ . | quote }}
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

{{- define "fabric-injector.checkPorts" -}}
{{- if eq (int .Values.ports.webhook) (int .Values.ports.admin) -}}
{{- include "fabric-injector.refuse" (list
    (printf "ports: `webhook` and `admin` are both %d" (int .Values.ports.admin))
    "choose another port for one of them") -}}
{{- end -}}
{{- if and .Values.hostNetwork (has 10250 (list (int .Values.ports.webhook) (int .Values.ports.admin))) -}}
{{- include "fabric-injector.refuse" (list
    "ports: with `hostNetwork`, 10250 is the port of the kubelet"
    "choose another port, or set `hostNetwork: false`") -}}
{{- end -}}
{{- end -}}
