{{/* A sample pod, for NOTES.txt and `helm test`. */}}

{{/* As JSON: the `annotation` with its `value`, and the `gpu` of the first policy by name that an annotation alone
triggers. The sample pod has no labels and no owner, and selects no node. Empty if there is no such policy. */}}
{{- define "fabric-injector.probe" -}}
{{- $probe := dict -}}
{{- $policies := include "fabric-injector.policies" . | fromJson -}}
{{- range $name := keys $policies | sortAlpha -}}
{{- $policy := get $policies $name -}}
{{- $match := $policy.match -}}
{{- $more := or $match.labels $match.namespaces $match.ownerKinds $match.when -}}
{{- if and $match.anyAnnotation (not $more) (not $probe) -}}
{{- $key := keys $match.anyAnnotation | sortAlpha | last -}}
{{- $probe = dict "annotation" $key "value" (get $match.anyAnnotation $key) "gpu" (first $policy.gpuResources) -}}
{{- end -}}
{{- end -}}
{{- toJson $probe -}}
{{- end -}}

{{/* Whether the webhook excludes the namespace `test.namespace`; empty if not. */}}
{{- define "fabric-injector.testNamespaceIsExcluded" -}}
{{- $excluded := append (include "fabric-injector.excludedNamespaces" . | fromJsonArray) .Release.Namespace -}}
{{- if has .Values.test.namespace $excluded -}}true{{- end -}}
{{- end -}}
