{{/* Which policies are in use. Both return JSON, since a template can return text alone. */}}

{{/* The provider that is enabled, or nothing. */}}
{{- define "fabric-injector.provider" -}}
{{- $enabled := list -}}
{{- range $provider, $settings := .Values.multinodeNetworking -}}
{{- if and $settings $settings.enabled -}}{{- $enabled = append $enabled $provider -}}{{- end -}}
{{- end -}}
{{- if gt (len $enabled) 1 -}}
{{- include "fabric-injector.refuse" (list
    (printf "multinodeNetworking: `%s` are enabled, and a pod can be served for one provider only"
      (join "`, `" (sortAlpha $enabled)))
    "leave `enabled: true` with the provider of this cluster, and set `enabled: false` with the others") -}}
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

{{/* The extra policies that are given as values, by name. */}}
{{- define "fabric-injector.extraPolicies" -}}
{{- $policies := dict -}}
{{- range $file, $text := .Values.extraPolicies -}}
{{- if not (regexMatch "^[-A-Za-z0-9_][-A-Za-z0-9_.]*[.]ya?ml$" $file) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` is no name of a policy file" $file)
    "it has to end with `.yaml`, since servers read no other, with no `/` in it and no dot at its head") -}}
{{- end -}}
{{- $policy := fromYaml $text -}}
{{- $error := dig "Error" "" $policy -}}
{{- if $error -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` is not valid YAML: %s" $file $error)
    "give the text of a policy file, for example by `--set-file`") -}}
{{- end -}}
{{- if ne (dig "kind" "" $policy) "FabricPolicy" -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` is not a policy: `kind` has to be `FabricPolicy`" $file)
    "docs/policy.md tells how to write one") -}}
{{- end -}}
{{- $name := dig "metadata" "name" "" $policy -}}
{{- if not $name -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: the policy in `%s` has no `metadata.name`" $file)
    "give it one that no other policy has") -}}
{{- end -}}
{{- if hasKey $policies $name -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: two policies are called `%s`; `%s` is one of them" $name $file)
    "give one of them another `metadata.name`") -}}
{{- end -}}
{{- if not (dig "spec" "match" dict $policy) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: the policy in `%s` has no `spec.match`, so it would be for every pod" $file)
    "say which pods it is for, by an annotation") -}}
{{- end -}}
{{- range $key := list "provider" "gpuResources" -}}
{{- if not (dig "spec" $key "" $policy) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: the policy in `%s` has no `spec.%s`" $file $key)
    "docs/policy.md tells what it has to be") -}}
{{- end -}}
{{- end -}}
{{- $_ := set $policies $name $policy -}}
{{- end -}}
{{- toJson $policies -}}
{{- end -}}

{{/* The built-in policy of the enabled provider by name: one entry, or none. */}}
{{- define "fabric-injector.enabledPolicy" -}}
{{- $provider := include "fabric-injector.provider" . -}}
{{- $policies := dict -}}
{{- range $name, $policy := include "fabric-injector.builtInPolicies" . | fromJson -}}
{{- if eq $policy.spec.provider $provider -}}{{- $_ := set $policies $name $policy -}}{{- end -}}
{{- end -}}
{{- toJson $policies -}}
{{- end -}}

{{/* Every policy that the chart knows to be in use, by name. */}}
{{- define "fabric-injector.policies" -}}
{{- $enabled := include "fabric-injector.enabledPolicy" . | fromJson -}}
{{- $extra := include "fabric-injector.extraPolicies" . | fromJson -}}
{{- toJson (merge $enabled $extra) -}}
{{- end -}}
