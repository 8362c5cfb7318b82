{{/*
The policies in `extraPolicies` and `extraPoliciesTriggers`, whose text only the chart sees: a list of them with the fields that
it reads. The servers check everything when they start and when they reload. A fault that only they find makes no pod depend on
the webhook that does not request the fabric.
*/}}
{{- define "fabric-injector.extraPolicies" -}}
{{- include "fabric-injector.refuseIf" (list (and .Values.extraPoliciesConfigMap .Values.extraPolicies)
    "`extraPoliciesConfigMap` and `extraPolicies` are both given, but the servers read one ConfigMap with policies"
    "put all policies into one of the two") -}}
{{- include "fabric-injector.refuseIf" (list (ne (empty .Values.extraPoliciesConfigMap) (empty .Values.extraPoliciesTriggers))
    "one of `extraPoliciesConfigMap` and `extraPoliciesTriggers` is given without the other"
    "name the ConfigMap, and in `extraPoliciesTriggers` `provider`, `match` and `gpus` of each policy in it") -}}
{{- $read := dict -}}
{{- range $file, $text := .Values.extraPolicies -}}
{{- /* Of a key and the same one by `<<`, Helm takes the last, and the servers take the one that is written out. */ -}}
{{- include "fabric-injector.refuseIf" (list (regexMatch `(?m)(^|[{,\s])(<<|"<<"|'<<')\s*:` $text)
    (printf "extraPolicies: in `%s`, there is a merge key (`<<`), which the chart does not read as the servers do" $file)
    "write out what it merges") -}}
{{- $_ := set $read $file (fromYaml $text) -}}
{{- end -}}
{{- range $name, $spec := .Values.extraPoliciesTriggers -}}
{{- $_ := set $read (print "extraPoliciesTriggers." $name) (dict "metadata" (dict "name" $name) "spec" $spec) -}}
{{- end -}}
{{- $text := `"([^"\\]|\\.)*"` -}}
{{- $list := printf `null|\[(%[1]s(,%[1]s)*)?\]` $text -}}
{{- $map := list "a map from texts to texts" (printf `null|\{(%[1]s:%[1]s(,%[1]s:%[1]s)*)?\}` $text) -}}
{{- $forms := dict "metadata.name" (list "a text" $text) "spec" (list "a map" `\{.*\}`) "spec.match" (list "a map" `null|\{.*\}`)
    "spec.provider" (list "a text" (print "null|" $text))
    "spec.extends" (list "a text, or a list of texts" (printf "%s|%s" $text $list))
    "spec.match.anyAnnotation" $map "spec.match.exceptAnnotation" $map "spec.match.labels" $map -}}
{{- range list "gpus.resources" "match.namespaces" "match.ownerKinds" -}}
{{- $_ := set $forms (print "spec." .) (list "a list of texts" $list) -}}
{{- end -}}
{{- $policies := list -}}
{{- range $file, $content := $read -}}
{{- include "fabric-injector.refuseIf" (list $content.Error
    (printf "extraPolicies: in `%s`, there is no valid YAML: %s" $file $content.Error)
    "use the text of a policy file, for example with `--set-file`") -}}
{{- $policy := dict "file" $file -}}
{{- range $place, $form := $forms -}}
{{- $value := $content -}}
{{- range splitList "." $place -}}{{- $value = kindIs "map" $value | ternary $value dict | dig . nil -}}{{- end -}}
{{- $json := toRawJson $value -}}
{{- include "fabric-injector.refuseIf" (list (not (regexMatch (printf "^(%s)$" (last $form)) $json))
    (printf "extraPolicies: in `%s`, `%s` must be %s, but is `%s`" $file $place (first $form) $json)
    "docs/policy.md describes the format; put texts that look like numbers or booleans in quotes") -}}
{{- if ne $json "null" -}}{{- $_ := set $policy (splitList "." $place | last) $value -}}{{- end -}}
{{- end -}}
{{- $policies = append $policies $policy -}}
{{- end -}}
{{- toJson $policies -}}
{{- end -}}
