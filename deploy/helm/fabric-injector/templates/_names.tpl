{{- define "fabric-injector.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* At most forty characters: the name gets suffixes, and is the first label of the DNS name in the certificate. */}}
{{- define "fabric-injector.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "fabric-injector.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "fabric-injector.serviceAccountName" -}}
{{- default (include "fabric-injector.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "fabric-injector.selectorLabels" -}}
app.kubernetes.io/name: {{ include "fabric-injector.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: webhook
{{- end -}}

{{- define "fabric-injector.labels" -}}
{{- include "fabric-injector.labelsAnd" (list . dict) -}}
{{- end -}}

{{/* The labels of an object that has more of them, which take precedence over `commonLabels`. Takes the root and these. */}}
{{- define "fabric-injector.labelsAnd" -}}
{{- $root := first . -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{ include "fabric-injector.selectorLabels" $root }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- with merge dict (default dict (last .)) (default dict $root.Values.commonLabels) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The metadata of an object. Takes the root, the namespace or an empty text, the end of the name, and labels for `labelsAnd`. */}}
{{- define "fabric-injector.metadata" -}}
metadata:
  name: {{ print (include "fabric-injector.fullname" (first .)) (index . 2) | quote }}
  {{- with index . 1 }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "fabric-injector.labelsAnd" (list (first .) (slice . 3 | first)) | nindent 4 }}
{{- end -}}

{{/* What a binding binds: a role and a service account. Takes the root, the kind of the role, the end of its name, and the account. */}}
{{- define "fabric-injector.bound" -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ index . 1 }}
  name: {{ print (include "fabric-injector.fullname" (first .)) (index . 2) | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ last . | quote }}
    namespace: {{ (first .).Release.Namespace | quote }}
{{- end -}}

{{/* The fields of a pod that the values set. */}}
{{- define "fabric-injector.podFields" -}}
{{- $fields := pick .Values "imagePullSecrets" "nodeSelector" "tolerations" -}}
{{- range $key, $value := set $fields "securityContext" .Values.podSecurityContext -}}
{{- if not $value -}}{{- $fields = omit $fields $key -}}{{- end -}}
{{- end -}}
{{- with $fields -}}{{- toYaml . -}}{{- end -}}
{{- end -}}

{{- define "fabric-injector.image" -}}
{{- include "fabric-injector.refuseIf" (list (not .Values.image.repository)
    "image: `repository` is empty, and this chart has no image of its own"
    "build an image and push it (docs/image.md), and use `--set image.repository=registry.example.com/fabric-injector`") -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- with .Values.image.digest -}}
{{- printf "%s:%s@%s" $.Values.image.repository $tag . -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- end -}}
{{- end -}}

{{/* The source of the certificate: `managed`, `certManager` or `secret`. */}}
{{- define "fabric-injector.certificates" -}}
{{- if .Values.certManager.enabled -}}certManager
{{- else if .Values.tls.secretName -}}secret
{{- else -}}managed
{{- end -}}
{{- end -}}

{{/* Empty if the server needs no access to the API. */}}
{{- define "fabric-injector.usesApi" -}}
{{- if or .Values.nodes.watch .Values.events.enabled (eq (include "fabric-injector.certificates" .) "managed") -}}true{{- end -}}
{{- end -}}

{{/* The mounted Secret. It differs from the Secret that the replicas manage, so that a change of the source does not lead to
two writers. */}}
{{- define "fabric-injector.tlsSecretName" -}}
{{- if .Values.certManager.enabled -}}
{{- include "fabric-injector.fullname" . }}-serving
{{- else -}}
{{- .Values.tls.secretName -}}
{{- end -}}
{{- end -}}

{{- define "fabric-injector.priorityClassName" -}}
{{- default (printf "%s-nonpreempting-1000000" (include "fabric-injector.fullname" .)) .Values.priorityClassName -}}
{{- end -}}
