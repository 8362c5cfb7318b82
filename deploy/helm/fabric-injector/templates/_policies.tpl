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

{{/*
A policy with what it has from the policy that it extends. Takes its `name`, the `builtIn` policies, the operator's `own`
policies as they are written, and those `seen` on the way.
*/}}
{{- define "fabric-injector.resolved" -}}
{{- if not (hasKey .own .name) -}}
{{- get .builtIn .name | toJson -}}
{{- else -}}
{{- $own := get .own .name -}}
{{- $spec := $own.spec -}}
{{- $policy := dict "provider" $spec.provider "gpuResources" $spec.gpuResources "match" dict "parameters" dict -}}
{{- with $spec.extends -}}
{{- include "fabric-injector.checkBase" (dict "base" . "place" $) -}}
{{- $policy = include "fabric-injector.resolved"
    (dict "name" . "builtIn" $.builtIn "own" $.own "seen" (append $.seen .)) | fromJson -}}
{{- end -}}
{{- range $key, $value := $spec.match -}}{{- $_ := set $policy.match $key $value -}}{{- end -}}
{{- range $name, $fields := $spec.parameters -}}
{{- $parameter := get $policy.parameters $name | default dict -}}
{{- range $key, $value := $fields -}}{{- $_ := set $parameter $key $value -}}{{- end -}}
{{- $_ := set $policy.parameters $name $parameter -}}
{{- end -}}
{{- $_ := set $policy "name" .name -}}
{{- $_ := set $policy "extends" $spec.extends -}}
{{- include "fabric-injector.checkResolved" (dict "file" $own.file "policy" $policy) -}}
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
{{- $all := deepCopy $builtIn -}}
{{- range $name := keys $own -}}
{{- $_ := set $all $name (include "fabric-injector.resolved"
    (dict "name" $name "builtIn" $builtIn "own" $own "seen" (list $name)) | fromJson) -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{/* The policies in `extraPolicies`, by name, with all that they inherit, and without those that another one extends. */}}
{{- define "fabric-injector.extraPolicies" -}}
{{- $own := include "fabric-injector.ownPolicies" . | fromJson -}}
{{- $all := include "fabric-injector.allPolicies" . | fromJson -}}
{{- $extended := dict -}}
{{- range $name := keys $own | sortAlpha -}}
{{- with (get $all $name).extends -}}
{{- if hasKey $extended . -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` and `%s` both extend `%s`" (get $extended .) $name .)
    (printf "write `extends: %s`, or remove one of them" (get $extended .))) -}}
{{- end -}}
{{- $_ := set $extended . $name -}}
{{- end -}}
{{- end -}}
{{- $policies := dict -}}
{{- range $name := keys $own -}}
{{- if not (hasKey $extended $name) -}}{{- $_ := set $policies $name (get $all $name) -}}{{- end -}}
{{- end -}}
{{- toJson $policies -}}
{{- end -}}

{{/* The built-in policies of the enabled provider by name, without those that another policy extends. */}}
{{- define "fabric-injector.enabledPolicy" -}}
{{- $provider := include "fabric-injector.provider" . -}}
{{- $policies := dict -}}
{{- $extended := list -}}
{{- range $name, $policy := include "fabric-injector.ownPolicies" . | fromJson -}}
{{- $extended = append $extended (default "" $policy.spec.extends) -}}
{{- end -}}
{{- range $name, $policy := include "fabric-injector.builtInPolicies" . | fromJson -}}
{{- if eq $policy.provider $provider -}}
{{- $_ := set $policies $name $policy -}}
{{- $extended = append $extended (default "" $policy.extends) -}}
{{- end -}}
{{- end -}}
{{- range $name := $extended -}}{{- $_ := unset $policies $name -}}{{- end -}}
{{- toJson $policies -}}
{{- end -}}

{{/* The policies in use that the chart can read, by name. */}}
{{- define "fabric-injector.policies" -}}
{{- $enabled := include "fabric-injector.enabledPolicy" . | fromJson -}}
{{- $extra := include "fabric-injector.extraPolicies" . | fromJson -}}
{{- toJson (merge $enabled $extra) -}}
{{- end -}}
