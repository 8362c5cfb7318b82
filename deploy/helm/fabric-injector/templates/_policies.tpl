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

{{/* The policies in `extraPolicies`, by name. */}}
{{- define "fabric-injector.extraPolicies" -}}
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

{{/* The policies in use that the chart can read, by name. */}}
{{- define "fabric-injector.policies" -}}
{{- $enabled := include "fabric-injector.enabledPolicy" . | fromJson -}}
{{- $extra := include "fabric-injector.extraPolicies" . | fromJson -}}
{{- toJson (merge $enabled $extra) -}}
{{- end -}}
