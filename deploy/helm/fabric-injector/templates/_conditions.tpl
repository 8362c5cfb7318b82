{{/*
CEL expressions for the API server. A test writes files/conditions.json: the forms with which the program makes them, too
(crates/engine/src/registration). What policies say gets into a form as JSON, which is CEL, so that no text ends a string.
*/}}
{{- define "fabric-injector.conditions" -}}
{{- .Files.Get "files/conditions.json" -}}
{{- end -}}

{{/* Whether a policy has only parts that are true, of those with a form. Takes the root and the name of the forms. */}}
{{- define "fabric-injector.anyPolicy" -}}
{{- $forms := get (include "fabric-injector.conditions" (first .) | fromJson) (last .) -}}
{{- $terms := list -}}
{{- range $policy := include "fabric-injector.policies" (first .) | fromJson -}}
{{- $each := list -}}
{{- range $form := $forms -}}
{{- with get $policy (first $form) -}}{{- $each = append $each (printf (last $form) (toRawJson .)) -}}{{- end -}}
{{- end -}}
{{- $terms = append $terms (join " && " $each) -}}
{{- end -}}
({{ uniq $terms | join ") || (" }})
{{- end -}}

{{/* The names of resources that are GPUs, in JSON. */}}
{{- define "fabric-injector.gpus" -}}
{{- $gpus := list -}}
{{- range include "fabric-injector.policies" . | fromJson -}}{{- $gpus = concat $gpus .resources -}}{{- end -}}
{{- uniq $gpus | sortAlpha | toRawJson -}}
{{- end -}}

{{/* The namespaces that webhook and guard exclude, as JSON. */}}
{{- define "fabric-injector.excludedNamespaces" -}}
{{- concat (list "kube-system" "kube-public" "kube-node-lease") .Values.webhook.excludedNamespaces | toJson -}}
{{- end -}}

{{/* Not empty if the webhook excludes the namespace `test.namespace`. */}}
{{- define "fabric-injector.testNamespaceIsExcluded" -}}
{{- $excluded := append (include "fabric-injector.excludedNamespaces" . | fromJsonArray) .Release.Namespace -}}
{{- if has .Values.test.namespace $excluded -}}true{{- end -}}
{{- end -}}

{{/* A selector of all other namespaces. Takes the root, and further ones that it excludes. */}}
{{- define "fabric-injector.namespaceSelector" -}}
{{- $root := first . -}}
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values:
      {{- range concat (include "fabric-injector.excludedNamespaces" $root | fromJsonArray) (rest .) | uniq }}
      - {{ . | quote }}
      {{- end }}
  {{- with $root.Values.webhook.namespaceSelectorExpressions }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
