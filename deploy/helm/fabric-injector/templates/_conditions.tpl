{{/*
CEL expressions for the API server, generated from `match` of the policies. The program generates the same text
(crates/engine/src/registration), and a test compares both: change them together.

`toRawJson` makes the strings of CEL. For YAML, which does not take every character of JSON, there is `quote`.
*/}}

{{/* A list of strings in CEL. */}}
{{- define "fabric-injector.quotedStrings" -}}
{{- $quoted := list -}}
{{- range . -}}{{- $quoted = append $quoted (toRawJson .) -}}{{- end -}}
{{- join ", " $quoted -}}
{{- end -}}

{{/* Whether the pod has one of the annotations; with `values`, with its value. Takes `annotations` and `values`. */}}
{{- define "fabric-injector.anyAnnotation" -}}
{{- $terms := list -}}
{{- range $key := keys .annotations | sortAlpha -}}
{{- $quoted := toRawJson $key -}}
{{- $term := printf "%s in object.metadata.annotations" $quoted -}}
{{- if $.values -}}
{{- $value := get $.annotations $key | toRawJson -}}
{{- $term = printf "%s && object.metadata.annotations[%s] == %s" $term $quoted $value -}}
{{- end -}}
{{- $terms = append $terms $term -}}
{{- end -}}
{{- $any := join " || " $terms -}}
has(object.metadata.annotations) && {{ if gt (len $terms) 1 }}({{ $any }}){{ else }}{{ $any }}{{ end }}
{{- end -}}

{{/* Whether an owner is of one of the kinds in a list of `Kind` and `Kind.group`. */}}
{{- define "fabric-injector.isOwner" -}}
{{- $kinds := list -}}
{{- $terms := list -}}
{{- range . -}}
{{- $parts := splitList "." . -}}
{{- if eq (len $parts) 1 -}}
{{- $kinds = append $kinds . -}}
{{- else -}}
{{- $group := join "." (rest $parts) -}}
{{- $terms = append $terms (printf "owner.kind == %s && owner.apiVersion.startsWith(%s)"
    (first $parts | toRawJson) (print $group "/" | toRawJson)) -}}
{{- end -}}
{{- end -}}
{{- if $kinds -}}
{{- $terms = prepend $terms (printf "owner.kind in [%s]" (include "fabric-injector.quotedStrings" $kinds)) -}}
{{- end -}}
{{- join " || " $terms -}}
{{- end -}}

{{/* Whether an object has all of these labels, as a list of terms in JSON. Takes `labels`, and in CEL `of`, the object. */}}
{{- define "fabric-injector.labelTerms" -}}
{{- $terms := list -}}
{{- range $key := keys .labels | sortAlpha -}}
{{- $terms = append $terms (printf
    "has(%[1]s.metadata.labels) && %[2]s in %[1]s.metadata.labels && %[1]s.metadata.labels[%[2]s] == %[3]s"
    $.of (toRawJson $key) (get $.labels $key | toRawJson)) -}}
{{- end -}}
{{- toJson $terms -}}
{{- end -}}

{{/* What requests the fabric, as JSON: the keys of `annotations` of policies, and the `labels` of policies without one. */}}
{{- define "fabric-injector.triggers" -}}
{{- $annotations := list -}}
{{- $labels := list -}}
{{- $policies := include "fabric-injector.policies" . | fromJson -}}
{{- range $name := keys $policies | sortAlpha -}}
{{- $match := (get $policies $name).match -}}
{{- if $match.anyAnnotation -}}{{- $annotations = concat $annotations (keys $match.anyAnnotation) -}}
{{- else -}}{{- $labels = append $labels $match.labels -}}
{{- end -}}
{{- end -}}
{{- dict "annotations" $annotations "labels" $labels | toJson -}}
{{- end -}}

{{/*
Whether the pod requests the fabric. Nothing else is in this condition, so that no fault in the others makes plain pods
depend on the webhook.
*/}}
{{- define "fabric-injector.triggerExpression" -}}
{{- $triggers := include "fabric-injector.triggers" . | fromJson -}}
{{- $terms := list -}}
{{- with $triggers.annotations -}}
{{- $any := dict -}}
{{- range . -}}{{- $_ := set $any . "" -}}{{- end -}}
{{- $terms = list (include "fabric-injector.anyAnnotation" (dict "annotations" $any "values" false)) -}}
{{- end -}}
{{- range $labels := $triggers.labels -}}
{{- $all := include "fabric-injector.labelTerms" (dict "labels" $labels "of" "object") | fromJsonArray -}}
{{- $terms = append $terms (join " && " $all) -}}
{{- end -}}
{{- include "fabric-injector.anyOf" $terms -}}
{{- end -}}

{{/* Terms in a list, joined by `||`, each once. */}}
{{- define "fabric-injector.anyOf" -}}
{{- $terms := uniq . -}}
{{- if gt (len $terms) 1 -}}({{ join ") || (" $terms }}){{- else -}}{{ first $terms }}{{- end -}}
{{- end -}}

{{/* Whether a policy matches the pod, apart from `when`, which the API server cannot evaluate. Takes `match` and `values`, as above. */}}
{{- define "fabric-injector.term" -}}
{{- $match := .match -}}
{{- $parts := include "fabric-injector.labelTerms"
    (dict "labels" (default dict $match.labels) "of" "object") | fromJsonArray -}}
{{- with $match.namespaces -}}
{{- $parts = append $parts (printf "request.namespace in [%s]" (include "fabric-injector.quotedStrings" .)) -}}
{{- end -}}
{{- with $match.ownerKinds -}}
{{- $parts = append $parts (printf
    "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner, %s)"
    (include "fabric-injector.isOwner" .)) -}}
{{- end -}}
{{- with $match.anyAnnotation -}}
{{- $parts = append $parts (include "fabric-injector.anyAnnotation" (dict "annotations" . "values" $.values)) -}}
{{- end -}}
{{- range $key := keys (default dict $match.exceptAnnotation) | sortAlpha -}}
{{- $quoted := toRawJson $key -}}
{{- $value := get $match.exceptAnnotation $key | toRawJson -}}
{{- $has := printf "has(object.metadata.annotations) && %s in object.metadata.annotations" $quoted -}}
{{- if eq $value `"*"` -}}
{{- $parts = append $parts (printf "!(%s)" $has) -}}
{{- else -}}
{{- $parts = append $parts (printf "!(%s && object.metadata.annotations[%s] == %s)" $has $quoted $value) -}}
{{- end -}}
{{- end -}}
{{- join " && " $parts -}}
{{- end -}}

{{/* Whether any policy matches the pod. Takes `policies` and `values`, as above. */}}
{{- define "fabric-injector.policyMatchesPod" -}}
{{- $terms := list -}}
{{- range $name := keys .policies | sortAlpha -}}
{{- $policy := get $.policies $name -}}
{{- $terms = append $terms (include "fabric-injector.term" (dict "match" $policy.match "values" $.values)) -}}
{{- end -}}
{{- include "fabric-injector.anyOf" $terms -}}
{{- end -}}

{{/*
Whether a container or an init container may have GPUs: by a limit, a device class or a claim. Takes `policies`, and in CEL
`pod`, the pod or a template.
*/}}
{{- define "fabric-injector.requestsGpus" -}}
{{- $gpus := list -}}
{{- range $name, $policy := .policies -}}{{- $gpus = concat $gpus $policy.gpuResources -}}{{- end -}}
{{- $names := include "fabric-injector.quotedStrings" (sortAlpha (uniq $gpus)) -}}
{{- $gpu := `gpu in container.resources.limits && string(container.resources.limits[gpu]) != "0"` -}}
{{- $class := `container.resources.limits.exists(name, name.startsWith("deviceclass.resource.kubernetes.io/"))` -}}
{{- $any := printf "([%s].exists(gpu, %s) || %s)" $names $gpu $class -}}
{{- $claims := `has(container.resources.claims) && size(container.resources.claims) > 0` -}}
{{- $limits := printf "has(container.resources.limits) && %s" $any -}}
{{- $container := printf "exists(container, has(container.resources) && (%s || %s))" $claims $limits -}}
{{ .pod }}.spec.containers.{{ $container }} || {{ "" -}}
has({{ .pod }}.spec.initContainers) && {{ .pod }}.spec.initContainers.{{ $container }}
{{- end -}}

{{- define "fabric-injector.webhookConditions" -}}
{{- $policies := include "fabric-injector.policies" . | fromJson -}}
- name: has-trigger
  expression: {{ include "fabric-injector.triggerExpression" . | quote }}
- name: policy-matches-pod
  expression: {{ include "fabric-injector.policyMatchesPod" (dict "policies" $policies "values" false) | quote }}
{{- end -}}

{{- define "fabric-injector.guardConditions" -}}
{{- $policies := include "fabric-injector.policies" . | fromJson -}}
- name: has-trigger
  expression: {{ include "fabric-injector.triggerExpression" . | quote }}
- name: policy-matches-pod
  expression: {{ include "fabric-injector.policyMatchesPod" (dict "policies" $policies "values" true) | quote }}
- name: requests-gpus
  expression: {{ include "fabric-injector.requestsGpus" (dict "policies" $policies "pod" "object") | quote }}
- name: not-on-windows
  expression: {{ `!(has(object.spec.os) && object.spec.os.name == "windows")` | quote }}
- name: not-a-mirror-pod
  expression: {{ printf "!(has(object.metadata.annotations) && %q in object.metadata.annotations)"
    "kubernetes.io/config.mirror" | quote }}
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

{{/* A selector of all other namespaces. Takes the root as `root`, and `excluded`. */}}
{{- define "fabric-injector.namespaceSelector" -}}
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values:
      {{- range uniq .excluded }}
      - {{ . | quote }}
      {{- end }}
  {{- with .root.Values.webhook.namespaceSelectorExpressions }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
