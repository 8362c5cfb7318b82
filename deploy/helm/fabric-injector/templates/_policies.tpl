{{/*
The policies in use, as JSON, because a template returns text. A test writes files/policies.json: what the program lists
of the built-in policies and of their parts. The chart has no other knowledge of them.
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

{{/* Not empty if the nodes choose the provider for a pod. */}}
{{- define "fabric-injector.byNodes" -}}
{{- if not (or (not .Values.nodes.watch) (include "fabric-injector.provider" .) (include "fabric-injector.ownPolicies" .)) -}}true{{- end -}}
{{- end -}}

{{/* The ConfigMap with policies of the operator; empty if there are none. */}}
{{- define "fabric-injector.ownPolicies" -}}
{{- if .Values.extraPoliciesConfigMap -}}{{- .Values.extraPoliciesConfigMap -}}
{{- else if .Values.extraPolicies -}}{{- include "fabric-injector.fullname" . }}-policies
{{- end -}}
{{- end -}}

{{/* The built-in policies of the enabled provider by name; all of them if the nodes choose. */}}
{{- define "fabric-injector.enabledPolicies" -}}
{{- $provider := include "fabric-injector.provider" . -}}
{{- $byNodes := include "fabric-injector.byNodes" . -}}
{{- $policies := dict -}}
{{- range $name, $policy := .Files.Get "files/policies.json" | fromJson -}}
{{- /* A part of policies has no provider. */ -}}
{{- if and $policy.provider (or $byNodes (eq $policy.provider $provider)) -}}
{{- $_ := set $policies $name $policy -}}
{{- end -}}
{{- end -}}
{{- toJson $policies -}}
{{- end -}}

{{/*
The policies in `extraPolicies` and `extraPoliciesTriggers` by name, each with what it has from those that it extends. Of the
latter, the values have the fields of `spec` that the chart reads.
*/}}
{{- define "fabric-injector.extraPolicies" -}}
{{- if and .Values.extraPoliciesConfigMap .Values.extraPolicies -}}
{{- include "fabric-injector.refuse" (list
    "`extraPoliciesConfigMap` and `extraPolicies` are both given, but the servers read one ConfigMap with policies"
    "put all policies into one of the two") -}}
{{- end -}}
{{- if ne (empty .Values.extraPoliciesConfigMap) (empty .Values.extraPoliciesTriggers) -}}
{{- include "fabric-injector.refuse" (list
    "one of `extraPoliciesConfigMap` and `extraPoliciesTriggers` is given without the other"
    "name the ConfigMap, and in `extraPoliciesTriggers` `provider`, `match` and `gpus` of each policy in it") -}}
{{- end -}}
{{- $all := .Files.Get "files/policies.json" | fromJson -}}
{{- $own := list -}}
{{- range $file, $text := .Values.extraPolicies -}}
{{- $own = append $own (include "fabric-injector.ownPolicy" (dict "file" $file "text" $text) | fromJson) -}}
{{- end -}}
{{- range $name, $spec := .Values.extraPoliciesTriggers -}}
{{- $text := dict "apiVersion" "fabric-injector.io/v1alpha1" "kind" "FabricPolicy" "metadata" (dict "name" $name)
    "spec" (merge (dict "description" "") $spec) | toYaml -}}
{{- $own = append $own (include "fabric-injector.ownPolicy" (dict "file" (print "extraPoliciesTriggers." $name)
    "text" $text) | fromJson) -}}
{{- end -}}
{{- $providers := list -}}
{{- range concat (values $all) $own -}}{{- with .provider -}}{{- $providers = append $providers . -}}{{- end -}}{{- end -}}
{{- range $provider, $_ := .Values.multinodeNetworking -}}
{{- if not (has $provider $providers) -}}
{{- include "fabric-injector.refuse" (list (printf "multinodeNetworking: no policy has the provider `%s`" $provider)
    (printf "there are policies for `%s`" (uniq $providers | sortAlpha | join "`, `"))) -}}
{{- end -}}
{{- end -}}
{{- $provider := include "fabric-injector.provider" . -}}
{{- $alone := printf "to use only policies of your own, set `multinodeNetworking.%s.enabled=false`" $provider -}}
{{- $taken := dict -}}
{{- range $name, $_ := include "fabric-injector.enabledPolicies" . | fromJson -}}
{{- $_ := set $taken $name (list "like a built-in policy in use" (print "choose another name; " $alone)) -}}
{{- end -}}
{{- range $own -}}
{{- $policy := . -}}
{{- with get $taken .name -}}
{{- include "fabric-injector.refuse" (list (printf "extraPolicies: in `%s`, `metadata.name` must be unique, but is `%s`, %s"
    $policy.file $policy.name (first .)) (last .)) -}}
{{- end -}}
{{- $_ := set $taken .name (list (printf "as in `%s`" .file) "give one of them another name") -}}
{{- $_ := set $all .name . -}}
{{- end -}}
{{- $only := list $provider "which is enabled" (printf "write `provider: %s`; %s" $provider $alone) -}}
{{- $policies := dict -}}
{{- range $own -}}
{{- $policy := include "fabric-injector.resolved" (dict "name" .name "all" $all "seen" (list .name)) | fromJson -}}
{{- /* A part of policies has neither. */ -}}
{{- if or $policy.provider .hasDescription -}}
{{- $needed := dict "provider" $policy.provider "gpus.resources" $policy.gpuResources "match" $policy.match -}}
{{- $file := .file -}}
{{- range $key, $value := $needed -}}
{{- if not $value -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: in `%s`, `spec` has no `%s`" $file $key) (printf "add `%s:`" $key)) -}}
{{- end -}}
{{- end -}}
{{- if not (or $policy.match.anyAnnotation $policy.match.labels) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: in `%s`, `match` selects pods that do not request the fabric" $file)
    "give `anyAnnotation` or `labels`; the other keys only restrict what these match") -}}
{{- end -}}
{{- if not (first $only) -}}
{{- $only = list $policy.provider (printf "as in `%s`" $file) "a cluster has one provider; remove the policies for others" -}}
{{- end -}}
{{- if ne (first $only) $policy.provider -}}
{{- include "fabric-injector.refuse" (list (printf "extraPolicies: in `%s`, the provider must be `%s`, %s, but is `%s`"
    $file (first $only) (index $only 1) $policy.provider) (last $only)) -}}
{{- end -}}
{{- $_ := set $policies .name $policy -}}
{{- end -}}
{{- end -}}
{{- toJson $policies -}}
{{- end -}}

{{/* A policy with what it has from those that it extends. Takes its `name`, `all` by name, and those `seen` on the way. */}}
{{- define "fabric-injector.resolved" -}}
{{- $specs := list -}}
{{- range $base := (get .all .name).bases -}}
{{- if has $base $.seen -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` extends itself, directly or through another policy" $base)
    "extend a policy that does not extend this one") -}}
{{- else if not (hasKey $.all $base) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` extends `%s`, which is neither a built-in policy nor in `extraPolicies`" $.name $base)
    (printf "there are `%s`" (keys $.all | sortAlpha | join "`, `"))) -}}
{{- end -}}
{{- $specs = append $specs (include "fabric-injector.resolved"
    (dict "name" $base "all" $.all "seen" (append $.seen $base)) | fromJson) -}}
{{- end -}}
{{- $policy := dict "match" dict "gpuResources" list -}}
{{- range append $specs (get .all .name) -}}
{{- with .provider -}}{{- $_ := set $policy "provider" . -}}{{- end -}}
{{- $_ := set $policy "gpuResources" (default list .gpuResources | concat $policy.gpuResources | uniq) -}}
{{- range $key, $value := .match -}}{{- $_ := set $policy.match $key $value -}}{{- end -}}
{{- end -}}
{{- toJson $policy -}}
{{- end -}}

{{/* The policies in use by name. */}}
{{- define "fabric-injector.policies" -}}
{{- $policies := merge (include "fabric-injector.enabledPolicies" . | fromJson)
    (include "fabric-injector.extraPolicies" . | fromJson) -}}
{{- if not $policies -}}
{{- include "fabric-injector.refuse" (list
    "multinodeNetworking: no provider is enabled, so no pod would be injected"
    "set `multinodeNetworking.PROVIDER.enabled=true` for a provider that `fabric-injector policy list` lists, let the nodes choose by `nodes.watch=true`, or add policies of your own to `extraPolicies`") -}}
{{- end -}}
{{- toJson $policies -}}
{{- end -}}
