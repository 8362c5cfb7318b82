{{/* A sample pod, for NOTES.txt. `helm test` chooses its own from the nodes. */}}

{{/* As JSON: the `annotation` with its `value`, the `gpu` and the `nodeSelector` of the first policy by name that an
annotation triggers, on a node that files/samples.json has for the policy. The sample pod has no labels and no owner. Empty
if there is no such policy, and if the nodes choose the provider: the chart does not know which nodes there are. */}}
{{- define "fabric-injector.probe" -}}
{{- $probe := dict -}}
{{- $policies := include "fabric-injector.policies" . | fromJson -}}
{{- $samples := .Files.Get "files/samples.json" | fromJson -}}
{{- range $name := keys $policies | sortAlpha -}}
{{- $policy := get $policies $name -}}
{{- $match := $policy.match -}}
{{- /* A policy of the operator may have a condition that no node is known to meet. */ -}}
{{- $unknown := and $match.when (not (hasKey $samples $name)) -}}
{{- $more := or (include "fabric-injector.byNodes" $) $match.labels $match.namespaces $match.ownerKinds $unknown -}}
{{- if and $match.anyAnnotation (not $more) (not $probe) -}}
{{- $key := keys $match.anyAnnotation | sortAlpha | last -}}
{{- $probe = dict "annotation" $key "value" (get $match.anyAnnotation $key) "gpu" (first $policy.gpuResources)
    "nodeSelector" (default dict (get $samples $name)) -}}
{{- end -}}
{{- end -}}
{{- toJson $probe -}}
{{- end -}}

{{/* Whether the webhook excludes the namespace `test.namespace`; empty if not. */}}
{{- define "fabric-injector.testNamespaceIsExcluded" -}}
{{- $excluded := append (include "fabric-injector.excludedNamespaces" . | fromJsonArray) .Release.Namespace -}}
{{- if has .Values.test.namespace $excluded -}}true{{- end -}}
{{- end -}}
