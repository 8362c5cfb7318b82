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
# The same response, whether injection fails or the API server reaches no replica.
- --on-error={{ eq .Values.webhook.failurePolicy "Ignore" | ternary "allow" "deny" }}
- --shutdown-delay={{ .Values.server.shutdownDelaySeconds }}s
- --drain-timeout={{ .Values.server.drainTimeoutSeconds }}s
{{- with .Values.server.log }}
- --log={{ . }}
{{- end }}
{{- range .Values.server.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Complies with the restricted Pod Security Standard, with a read-only root file system. */}}
{{- define "fabric-injector.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "fabric-injector.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}
