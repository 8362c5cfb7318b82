{{/*
The policies in use, as JSON, because a template returns text. Each has the form of `fabric-injector policy list
--output json`, which has printed the built-in ones: the chart has no other knowledge of them.
*/}}

{{/* The enabled provider, or an empty text. */}}
{{- define "fabric-injector.provider" -}}
{{- $enabled := list -}}
{{- range $provider, $settings := .Values.multinodeNetworking -}}
{{- if and $settings $settings.enabled -}}{{- $enabled = append $enabled $provider -}}{{- end -}}
{{- end -}}
{{- if gt (len $enabled) 1 -}}
{{- include "fabric-injector.refuse" (list
    (printf "multinodeNetworking: `%s` are enabled, but a cluster has one provider"
      (join "`, `" (sortAlpha $enabled)))
    "keep `enabled: true` for the provider of this cluster, and set `enabled: false` for the others") -}}
{{- end -}}
{{- first $enabled | default "" -}}
{{- end -}}

{{/* The built-in policies by name. */}}
{{- define "fabric-injector.builtInPolicies" -}}
{{- $policies := dict -}}
{{- range .Files.Get "files/policies.json" | fromJsonArray -}}{{- $_ := set $policies .name . -}}{{- end -}}
{{- toJson $policies -}}
{{- end -}}

{{/* The parts of policies, by name, in the form of `fabric-injector.ownPolicies`. */}}
{{- define "fabric-injector.parts" -}}
{{- $parts := dict -}}
{{- range .Files.Get "files/parts.json" | fromJsonArray -}}{{- $_ := set $parts .name . -}}{{- end -}}
{{- toJson $parts -}}
{{- end -}}

{{/*
A policy, or a part of policies, with what it has from those that it extends. Takes its `name`, the `builtIn` policies, the
operator's `own` policies as they are written, the parts among them, and those `seen` on the way.
*/}}
{{- define "fabric-injector.resolved" -}}
{{- if not (hasKey .own .name) -}}
{{- get .builtIn .name | toJson -}}
{{- else -}}
{{- $own := get .own .name -}}
{{- $extends := default list $own.spec.extends -}}
{{- $policy := dict "name" .name "match" dict "parameters" dict -}}
{{- $specs := list -}}
{{- range $base := kindIs "string" $extends | ternary (list $extends) $extends -}}
{{- include "fabric-injector.checkBase" (dict "base" $base "place" $) -}}
{{- $specs = append $specs (include "fabric-injector.resolved"
    (dict "name" $base "builtIn" $.builtIn "own" $.own "seen" (append $.seen $base)) | fromJson) -}}
{{- end -}}
{{- $gpus := list -}}
{{- range $spec := $specs -}}
{{- with $spec.provider -}}{{- $_ := set $policy "provider" . -}}{{- end -}}
{{- $gpus = concat $gpus (default list $spec.gpuResources) -}}
{{- end -}}
{{- if and (hasKey $own.spec "provider") (hasKey $policy "provider") -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: in `%s`, an extension has the `provider` of its base" $own.file) "remove it") -}}
{{- end -}}
{{- with $own.spec.provider -}}{{- $_ := set $policy "provider" . -}}{{- end -}}
{{- $_ := set $policy "gpuResources" (concat $gpus (default list (default dict $own.spec.gpus).resources) | uniq) -}}
{{- range $spec := append $specs $own.spec -}}
{{- range $key, $value := $spec.match -}}{{- $_ := set $policy.match $key $value -}}{{- end -}}
{{- range $name, $fields := $spec.parameters -}}
{{- $parameter := get $policy.parameters $name | default dict -}}
{{- /* An extension can set a parameter of its base to a value. */ -}}
{{- if kindIs "map" $fields -}}
{{- range $key, $value := $fields -}}{{- $_ := set $parameter $key $value -}}{{- end -}}
{{- end -}}
{{- if not $parameter.type -}}
{{- $kinds := dict "string" "string" "bool" "boolean" "float64" "number" "int64" "number" "slice" "stringList" -}}
{{- $told := get $kinds (kindOf $parameter.default) -}}
{{- $_ := set $parameter "type" (hasKey $parameter "enum" | ternary "string" (default "" $told)) -}}
{{- end -}}
{{- $_ := set $policy.parameters $name $parameter -}}
{{- end -}}
{{- end -}}
{{- /* A part has neither. */ -}}
{{- if or $policy.provider (hasKey $own.spec "description") -}}
{{- include "fabric-injector.checkResolved" (dict "file" $own.file "policy" $policy) -}}
{{- end -}}
{{- toJson $policy -}}
{{- end -}}
{{- end -}}

{{/* Fails if there is no such base. Takes its name as `base`, and what `resolved` takes as `place`. */}}
{{- define "fabric-injector.checkBase" -}}
{{- $place := .place -}}
{{- if has .base $place.seen -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` extends itself, directly or through another policy" .base)
    "extend a policy that does not extend this one") -}}
{{- end -}}
{{- $known := concat (keys $place.own) (keys $place.builtIn) | uniq | sortAlpha -}}
{{- if not (has .base $known) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` extends `%s`, which is neither a built-in policy nor in `extraPolicies`"
      $place.name .base)
    (printf "there are `%s`" (join "`, `" $known))) -}}
{{- end -}}
{{- end -}}

{{/* All policies that there are, by name: the built-in ones, and those in `extraPolicies`. */}}
{{- define "fabric-injector.allPolicies" -}}
{{- $builtIn := include "fabric-injector.builtInPolicies" . | fromJson -}}
{{- $own := include "fabric-injector.ownPolicies" . | fromJson -}}
{{- $files := merge (deepCopy $own) (include "fabric-injector.parts" . | fromJson) -}}
{{- $all := deepCopy $builtIn -}}
{{- range $name := keys $own -}}
{{- $policy := include "fabric-injector.resolved"
    (dict "name" $name "builtIn" $builtIn "own" $files "seen" (list $name)) | fromJson -}}
{{- if $policy.provider -}}{{- $_ := set $all $name $policy -}}{{- end -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{/* The policies in `extraPolicies`, by name, with all that they inherit. */}}
{{- define "fabric-injector.extraPolicies" -}}
{{- $all := include "fabric-injector.allPolicies" . | fromJson -}}
{{- $policies := dict -}}
{{- range $name := keys (include "fabric-injector.ownPolicies" . | fromJson) -}}
{{- with get $all $name -}}{{- $_ := set $policies $name . -}}{{- end -}}
{{- end -}}
{{- toJson $policies -}}
{{- end -}}

{{/* Not empty if the nodes choose the provider for a pod. */}}
{{- define "fabric-injector.byNodes" -}}
{{- $named := or (include "fabric-injector.provider" .) .Values.extraPolicies .Values.extraPoliciesConfigMap -}}
{{- if and .Values.nodes.watch (not $named) -}}true{{- end -}}
{{- end -}}

{{/* The built-in policies of the enabled provider by name; all of them if the nodes choose. */}}
{{- define "fabric-injector.enabledPolicy" -}}
{{- $provider := include "fabric-injector.provider" . -}}
{{- $byNodes := include "fabric-injector.byNodes" . -}}
{{- $policies := dict -}}
{{- range $name, $policy := include "fabric-injector.builtInPolicies" . | fromJson -}}
{{- if or $byNodes (eq $policy.provider $provider) -}}{{- $_ := set $policies $name $policy -}}{{- end -}}
{{- end -}}
{{- toJson $policies -}}
{{- end -}}

{{/* The policies in use that the chart can read, by name. */}}
{{- define "fabric-injector.policies" -}}
{{- $enabled := include "fabric-injector.enabledPolicy" . | fromJson -}}
{{- $extra := include "fabric-injector.extraPolicies" . | fromJson -}}
{{- toJson (merge $enabled $extra) -}}
{{- end -}}
