{{/* The policies in use, as JSON, because a template returns text. */}}

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
{{- range $path, $content := .Files.Glob "files/policies/*.yaml" -}}
{{- $policy := fromYaml (toString $content) -}}
{{- $_ := set $policies $policy.metadata.name $policy -}}
{{- end -}}
{{- toJson $policies -}}
{{- end -}}

{{/*
A policy with what it has from the policy that it extends. Takes its `name`, the `policies` that there are, and those
`seen` on the way.
*/}}
{{- define "fabric-injector.inherited" -}}
{{- $policy := get .policies .name -}}
{{- $base := dig "spec" "extends" "" $policy -}}
{{- if $base -}}
{{- if has $base .seen -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` extends itself, directly or through another policy" $base)
    "extend a policy that does not extend this one") -}}
{{- end -}}
{{- if not (hasKey .policies $base) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` extends `%s`, which is neither a built-in policy nor in `extraPolicies`" .name $base)
    (printf "there are `%s`" (join "`, `" (keys .policies | sortAlpha)))) -}}
{{- end -}}
{{- $seen := append .seen $base -}}
{{- $inherited := include "fabric-injector.inherited" (dict "name" $base "policies" .policies "seen" $seen) | fromJson -}}
{{- $spec := $inherited.spec -}}
{{- $match := $spec.match -}}
{{- range $key, $value := dig "spec" "match" dict $policy -}}{{- $_ := set $match $key $value -}}{{- end -}}
{{- $spec = dict "provider" $spec.provider "gpuResources" $spec.gpuResources "match" $match "extends" $base -}}
{{- $policy = dict "metadata" $policy.metadata "spec" $spec -}}
{{- end -}}
{{- toJson $policy -}}
{{- end -}}

{{/* The policies in `extraPolicies`, by name, with all that they inherit, and without those that another one extends. */}}
{{- define "fabric-injector.extraPolicies" -}}
{{- $own := include "fabric-injector.ownPolicies" . | fromJson -}}
{{- $all := include "fabric-injector.builtInPolicies" . | fromJson -}}
{{- range $name, $policy := $own -}}{{- $_ := set $all $name $policy -}}{{- end -}}
{{- $extended := dict -}}
{{- range $name := keys $own | sortAlpha -}}
{{- with dig "spec" "extends" "" (get $own $name) -}}
{{- if hasKey $extended . -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` and `%s` both extend `%s`" (get $extended .) $name .)
    (printf "write `extends: %s`, or remove one of them" (get $extended .))) -}}
{{- end -}}
{{- $_ := set $extended . $name -}}
{{- end -}}
{{- end -}}
{{- $policies := dict -}}
{{- range $name := keys $own | sortAlpha -}}
{{- $policy := include "fabric-injector.inherited" (dict "name" $name "policies" $all "seen" (list $name)) | fromJson -}}
{{- if not (hasKey $extended $name) -}}{{- $_ := set $policies $name $policy -}}{{- end -}}
{{- end -}}
{{- toJson $policies -}}
{{- end -}}

{{/* The policies in `extraPolicies` as they are written, by name. */}}
{{- define "fabric-injector.ownPolicies" -}}
{{- $policies := dict -}}
{{- range $file, $text := .Values.extraPolicies -}}
{{- if not (regexMatch "^[-A-Za-z0-9_][-A-Za-z0-9_.]*[.]ya?ml$" $file) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` is not the name of a policy file" $file)
    "it has to end with `.yaml`, without `/` and without a leading dot") -}}
{{- end -}}
{{- $policy := fromYaml $text -}}
{{- $error := dig "Error" "" $policy -}}
{{- if $error -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` is not valid YAML: %s" $file $error)
    "use the text of a policy file, for example with `--set-file`") -}}
{{- end -}}
{{- if ne (dig "kind" "" $policy) "FabricPolicy" -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` is not a policy: `kind` has to be `FabricPolicy`" $file)
    "docs/policy.md describes the format") -}}
{{- end -}}
{{- $name := dig "metadata" "name" "" $policy -}}
{{- if not $name -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: the policy in `%s` has no `metadata.name`" $file)
    "add a name that no other policy has") -}}
{{- end -}}
{{- if hasKey $policies $name -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: two policies are called `%s`; `%s` is one of them" $name $file)
    "change the `metadata.name` of one") -}}
{{- end -}}
{{- if not (dig "spec" "extends" "" $policy) -}}
{{- if not (dig "spec" "match" dict $policy) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: the policy in `%s` has no `spec.match`, so it would match every pod" $file)
    "match pods by an annotation") -}}
{{- end -}}
{{- range $key := list "provider" "gpuResources" -}}
{{- if not (dig "spec" $key "" $policy) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: the policy in `%s` has no `spec.%s`" $file $key)
    "docs/policy.md describes the field") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $_ := set $policies $name $policy -}}
{{- end -}}
{{- toJson $policies -}}
{{- end -}}

{{/* The built-in policies of the enabled provider by name, without those that another policy extends. */}}
{{- define "fabric-injector.enabledPolicy" -}}
{{- $provider := include "fabric-injector.provider" . -}}
{{- $builtIn := include "fabric-injector.builtInPolicies" . | fromJson -}}
{{- $policies := dict -}}
{{- $extended := list -}}
{{- range $name, $policy := include "fabric-injector.ownPolicies" . | fromJson -}}
{{- $extended = append $extended (dig "spec" "extends" "" $policy) -}}
{{- end -}}
{{- range $name := keys $builtIn | sortAlpha -}}
{{- $policy := include "fabric-injector.inherited" (dict "name" $name "policies" $builtIn "seen" (list $name)) | fromJson -}}
{{- if eq $policy.spec.provider $provider -}}
{{- $_ := set $policies $name $policy -}}
{{- $extended = append $extended (dig "spec" "extends" "" $policy) -}}
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
