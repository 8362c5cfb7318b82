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
{{- include "fabric-injector.refuseIf" (list (gt (len $enabled) 1)
    (printf "multinodeNetworking: `%s` are enabled, but a cluster has one provider" (sortAlpha $enabled | join "`, `"))
    "keep `enabled: true` for the provider of this cluster, and set `enabled: false` for the others") -}}
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

{{/* The policies in use by name, each with its `provider`, its GPUs as `resources`, and the parts of its `match`. */}}
{{- define "fabric-injector.policies" -}}
{{- $own := include "fabric-injector.extraPolicies" . | fromJsonArray -}}
{{- $known := .Files.Get "files/policies.json" | fromJson -}}
{{- $providers := list -}}
{{- range concat (values $known) $own -}}{{- $providers = append $providers .provider -}}{{- end -}}
{{- range $provider, $_ := .Values.multinodeNetworking -}}
{{- include "fabric-injector.refuseIf" (list (not (has $provider $providers))
    (printf "multinodeNetworking: no policy has the provider `%s`" $provider)
    (printf "there are policies for `%s`" (compact $providers | uniq | sortAlpha | join "`, `"))) -}}
{{- end -}}
{{- $provider := include "fabric-injector.provider" . -}}
{{- $alone := printf "to use only policies of your own, set `multinodeNetworking.%s.enabled=false`" (default "PROVIDER" $provider) -}}
{{- $policies := include "fabric-injector.enabledPolicies" . | fromJson -}}
{{- $taken := keys $policies -}}
{{- range $own -}}
{{- include "fabric-injector.refuseIf" (list (has .name $taken)
    (printf "extraPolicies: in `%s`, `metadata.name` must be unique, but is `%s`, like that of another policy" .file .name)
    (print "choose another name; " $alone)) -}}
{{- $taken = append $taken .name -}}
{{- $_ := set $known .name . -}}
{{- end -}}
{{- range $own -}}
{{- $policy := include "fabric-injector.resolved" (list .name $known) | fromJson -}}
{{- /* A part of policies has none. */ -}}
{{- if $policy.provider -}}
{{- $provider = default $policy.provider $provider -}}
{{- include "fabric-injector.refuseIf" (list (ne $policy.provider $provider)
    (printf "extraPolicies: in `%s`, the provider must be `%s`, like that of the others, but is `%s`" .file $provider $policy.provider)
    (printf "a cluster has one provider: write `provider: %s`; %s" $provider $alone)) -}}
{{- include "fabric-injector.refuseIf" (list (not (or $policy.anyAnnotation $policy.labels))
    (printf "extraPolicies: in `%s`, `match` selects pods that do not request the fabric" .file)
    "give `anyAnnotation` or `labels`; the other keys only restrict what these match") -}}
{{- $_ := set $policies .name $policy -}}
{{- end -}}
{{- end -}}
{{- include "fabric-injector.refuseIf" (list (not $policies)
    "multinodeNetworking: no provider is enabled, so no pod would be injected"
    "set `multinodeNetworking.PROVIDER.enabled=true` for a provider that `fabric-injector policy list` lists, let the nodes choose by `nodes.watch=true`, or add policies of your own, with a `provider`, to `extraPolicies`") -}}
{{- range $policies -}}
{{- /* Of a distinctive name, the part that slips and other prefixes keep. */ -}}
{{- $names := list -}}
{{- range $key, $_ := .anyAnnotation -}}
{{- $name := splitList "/" $key | last | trimPrefix "enable-" -}}
{{- $names = append $names (lt (len $name) 12 | ternary (printf "^%s$" $key) $name) -}}
{{- end -}}
{{- $_ := set . "likeTrigger" (uniq $names | sortAlpha) -}}
{{- $_ := set . "onlyLabels" (empty $names | ternary .labels dict) -}}
{{- end -}}
{{- toJson $policies -}}
{{- end -}}

{{/* A policy with what it has from those that it extends. Takes its name, and by name those that it may extend. */}}
{{- define "fabric-injector.resolved" -}}
{{- $name := first . -}}
{{- $own := get (last .) $name -}}
{{- $others := omit (last .) $name -}}
{{- $policy := dict -}}
{{- $resources := default list $own.resources -}}
{{- range $base := kindIs "string" $own.extends | ternary (list $own.extends) (default list $own.extends) -}}
{{- include "fabric-injector.refuseIf" (list (not (hasKey $others $base))
    (printf "extraPolicies: `%s` extends `%s`, which is neither a built-in policy nor in `extraPolicies`, or extends itself, directly or through another policy" $name $base)
    (printf "there are `%s`" (keys $others | sortAlpha | join "`, `"))) -}}
{{- $extended := include "fabric-injector.resolved" (list $base $others) | fromJson -}}
{{- $resources = concat $resources $extended.resources -}}
{{- range $key, $value := $extended -}}{{- $_ := set $policy $key $value -}}{{- end -}}
{{- end -}}
{{- range $key, $value := $own -}}{{- $_ := set $policy $key $value -}}{{- end -}}
{{- set $policy "resources" $resources | toJson -}}
{{- end -}}
