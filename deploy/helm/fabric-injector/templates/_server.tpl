{{/* Arguments of the server. A list, not a shell's line: the image has no shell. */}}

{{- define "fabric-injector.arguments" -}}
{{- $fullname := include "fabric-injector.fullname" . -}}
- serve
- --values=/etc/fabric-injector/values/values.yaml
{{- if or .Values.extraPolicies .Values.extraPoliciesConfigMap }}
{{- /* Whoever names a policy has to name all: then the enabled provider does not choose the built-in one. */}}
{{- range $name, $policy := include "fabric-injector.enabledPolicy" . | fromJson }}
- --policy={{ $name }}
{{- end }}
- --policy=/etc/fabric-injector/policies
{{- end }}
{{- if eq (include "fabric-injector.certificates" .) "managed" }}
- --manage-webhook={{ $fullname }}
- --manage-secret={{ $fullname }}-tls
{{- if .Values.guard.enabled }}
- --manage-guard={{ $fullname }}-guard
{{- end }}
- --certificate-life={{ .Values.certificates.life }}
- --ca-life={{ .Values.certificates.caLife }}
- --ca-overlap={{ .Values.certificates.caOverlap }}
{{- else }}
- --tls-dir=/etc/fabric-injector/tls
{{- end }}
# The same answer, whether a server cannot serve a pod or the API server reaches none.
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

{{/* Restricted, as the Pod Security Standards define it, and with a root that nobody can write to. */}}
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
