{{/*
The policies in `extraPolicies`, whose text only the chart sees. The API server acts on the conditions that are made of
them, so what the chart reads must have the form that the servers require. The servers check everything else when they
start and when they reload.
*/}}

{{/* A policy file, read. Takes its name as `file`, and its `text`. */}}
{{- define "fabric-injector.ownPolicy" -}}
{{- $at := printf "extraPolicies: in `%s`, " .file -}}
{{- /* Helm takes them for the end of a line, and the servers for characters like any other. */ -}}
{{- if regexMatch `[\x{85}\x{2028}\x{2029}]` .text -}}
{{- include "fabric-injector.refuse" (list
    (print $at "there is one of the characters U+0085, U+2028 and U+2029, which the chart does not read as the servers do")
    "remove it, or write it as `\\u2028` in double quotes") -}}
{{- end -}}
{{- /* Of a key and the same one by `<<`, Helm takes the last, and the servers take the one that is written out. */ -}}
{{- if regexMatch `(?m)(^|[{,\s])(<<|"<<"|'<<')\s*:` .text -}}
{{- include "fabric-injector.refuse" (list
    (print $at "there is a merge key (`<<`), which the chart does not read as the servers do") "write out what it merges") -}}
{{- end -}}
{{- $documents := 0 -}}
{{- range regexSplit `(?m)^(?:---|\.\.\.)(?:\s|$)` .text -1 -}}
{{- if regexMatch `(?m)^[ \t]*[^#%\s]` . -}}{{- $documents = add1 $documents -}}{{- end -}}
{{- end -}}
{{- if gt (int $documents) 1 -}}
{{- include "fabric-injector.refuse" (list (printf "%sthere must be one document, but there are %d" $at $documents)
    "put each policy under a file name of its own") -}}
{{- end -}}
{{- $policy := fromYaml .text -}}
{{- with get $policy "Error" -}}
{{- include "fabric-injector.refuse" (list (print $at "there is no valid YAML: " .)
    "use the text of a policy file, for example with `--set-file`") -}}
{{- end -}}
{{- range $place, $only := dict "apiVersion" "fabric-injector.io/v1alpha1" "kind" "FabricPolicy" -}}
{{- $json := index $policy $place | toRawJson -}}
{{- if ne $json (toRawJson $only) -}}
{{- include "fabric-injector.refuse" (list (printf "%s`%s` must be `%s`, but is `%s`" $at $place $only $json)
    (printf "write `%s: %s`" $place $only)) -}}
{{- end -}}
{{- end -}}
{{- $metadata := $policy.metadata -}}
{{- $spec := $policy.spec -}}
{{- $maps := dict "metadata" $metadata "spec" $spec -}}
{{- if kindIs "map" $spec -}}
{{- range $key := list "match" "gpus" -}}
{{- if hasKey $spec $key -}}{{- $_ := set $maps (print "spec." $key) (get $spec $key) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- range $place, $value := $maps -}}
{{- if not (kindIs "map" $value) -}}
{{- include "fabric-injector.refuseForm" (list $at $place "a map" (toRawJson $value)) -}}
{{- end -}}
{{- end -}}
{{- /* Empty ones are as if they were not there, and drop those of the base of an extension. */ -}}
{{- $map := `^\{(%[1]s:%[2]s(,%[1]s:%[2]s)*)?\}$` -}}
{{- $list := `^\[(%[1]s(,%[1]s)*)?\]$` -}}
{{- $part := `[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?` -}}
{{- $domain := `[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*` -}}
{{- $key := printf `"(%s/)?%s"` $domain $part -}}
{{- $name := `"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"` -}}
{{- $named := "a name of lower-case letters, digits and hyphens" -}}
{{- $text := `"([^"\\]|\\.)*"` -}}
{{- $kind := printf `"[A-Za-z][A-Za-z0-9]*([.]%s)?"` (replace "A-Za-z" "a-z" $domain) -}}
{{- /* Each field: the pattern of its JSON, and what it must be in words. No condition is made of `when`. */ -}}
{{- $forms := dict
    "metadata.name" (list (printf "^%s$" $name) $named)
    "spec.provider" (list (printf "^%s$" $name) $named)
    "spec.extends" (list (printf `^(%[1]s|\[(%[1]s(,%[1]s)*)?\])$` $name) "the name of a policy, or a list of names")
    "spec.gpus.resources" (list (printf `^\[%[1]s(,%[1]s)*\]$` `"[^"\\\s]+"`) "a list of names of resources")
    "spec.match.anyAnnotation" (list (printf $map $key `"([^"\\*]|\\.|([^"\\]|\\.){2,})?"`)
      "a map from names of annotations to texts other than `*`")
    "spec.match.exceptAnnotation" (list (printf $map $key $text) "a map from names of annotations to texts")
    "spec.match.labels" (list (printf $map $key (printf `"(%s)?"` $part)) "a map from names of labels to their values")
    "spec.match.namespaces" (list (printf $list $name) "a list of names of namespaces")
    "spec.match.ownerKinds" (list (printf $list $kind) "a list of `Kind` and `Kind.group`")
    "spec.match.when" (list "" "") -}}
{{- $values := dict "metadata.name" $metadata.name -}}
{{- range $key, $value := pick $spec "provider" "extends" -}}{{- $_ := set $values (print "spec." $key) $value -}}{{- end -}}
{{- range $key, $value := $spec.match -}}{{- $_ := set $values (print "spec.match." $key) $value -}}{{- end -}}
{{- range $key, $value := pick (default dict $spec.gpus) "resources" -}}
{{- $_ := set $values "spec.gpus.resources" $value -}}
{{- end -}}
{{- range $place, $value := $values -}}
{{- $json := toRawJson $value -}}
{{- $form := get $forms $place -}}
{{- if not $form -}}
{{- include "fabric-injector.refuse" (list (printf "%s`spec.match` has no field `%s`" $at (trimPrefix "spec.match." $place))
    (printf "its fields are `%s`" (keys $forms | sortAlpha | join "`, `" | replace "spec.match." ""))) -}}
{{- else if not (regexMatch (first $form) $json) -}}
{{- include "fabric-injector.refuseForm" (list $at $place (last $form) $json) -}}
{{- else if regexMatch `[{,]"(true|false|-?[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?)":` $json -}}
{{- /* Without quotes, servers refuse such a key. Helm makes a string of it, so that the quotes cannot be seen here. */ -}}
{{- include "fabric-injector.refuse" (list
    (printf "%s`%s` has a key that YAML reads as a boolean or a number, and the chart cannot tell whether it is in quotes: `%s`"
      $at $place $json) "choose another name; YAML reads `yes` and `on` as `true`, and `010` as `8`") -}}
{{- end -}}
{{- end -}}
{{- $extends := default list $spec.extends -}}
{{- dict "file" .file "name" $metadata.name "bases" (kindIs "string" $extends | ternary (list $extends) $extends)
    "provider" $spec.provider "gpuResources" (default dict $spec.gpus).resources "match" $spec.match
    "hasDescription" (hasKey $spec "description") | toJson -}}
{{- end -}}

{{/* Fails for a value. Takes in a list where it is, what it must be and what it is. */}}
{{- define "fabric-injector.refuseForm" -}}
{{- include "fabric-injector.refuse" (list (printf "%s`%s` must be %s, but is `%s`" (index . 0) (index . 1) (index . 2) (index . 3))
    "docs/policy.md describes the format; put texts that look like numbers or booleans in quotes") -}}
{{- end -}}
