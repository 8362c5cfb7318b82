{{/*
The policies in `extraPolicies`, whose text only the chart sees. What it reads of a policy has to have the form that the
servers require, because the API server would act on a condition that was misread, and the servers would not start.
*/}}

{{/* Fails for a value. Takes its `file`, its `place` there, the `value`, and what it has to be as `wants`. */}}
{{- define "fabric-injector.refuseValue" -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: in `%s`, `%s` has to be %s, and `%s` is not" .file .place .wants (toRawJson .value))
    (default "docs/policy.md describes the format; put texts that look like numbers or booleans in quotes" .hint)) -}}
{{- end -}}

{{/* Fails for unknown keys of a map. Takes its `file`, the name of the `map`, its `value`, and the `known` keys. */}}
{{- define "fabric-injector.checkKeys" -}}
{{- $known := .known -}}
{{- range $key := keys .value | sortAlpha -}}
{{- if not (has $key $known) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: in `%s`, %s has no field `%s`" $.file $.map $key)
    (printf "its fields are `%s`" (join "`, `" $known))) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fails for a text that does not match. Takes what `refuseValue` takes, and the `pattern`. */}}
{{- define "fabric-injector.checkText" -}}
{{- if not (and (kindIs "string" .value) (regexMatch .pattern (toString .value))) -}}
{{- include "fabric-injector.refuseValue" . -}}
{{- end -}}
{{- end -}}

{{/*
Fails for a list that is empty or has other items. Takes what `checkText` takes; `item` is what an item has to be, and
with `mayBeEmpty` the list may be empty.
*/}}
{{- define "fabric-injector.checkTexts" -}}
{{- if not (and (kindIs "slice" .value) (or .value .mayBeEmpty)) -}}
{{- include "fabric-injector.refuseValue" (merge (dict "wants" (printf "a list with %s in it" .item)) .) -}}
{{- end -}}
{{- range $at, $item := .value -}}
{{- include "fabric-injector.checkText" (merge
    (dict "place" (printf "%s[%d]" $.place $at) "value" $item "wants" $.item) (omit $ "value")) -}}
{{- end -}}
{{- end -}}

{{/* The same of a map. Takes the pattern of its keys as `keyPattern`, and what a key has to be as `key`. */}}
{{- define "fabric-injector.checkPairs" -}}
{{- if not (and (kindIs "map" .value) (or .value .mayBeEmpty)) -}}
{{- include "fabric-injector.refuseValue" (merge (dict "wants" (printf "a map from %s to %s" .key .item)) .) -}}
{{- end -}}
{{- range $key, $item := .value -}}
{{- include "fabric-injector.checkText" (dict "file" $.file "place" (printf "%s: a key" $.place) "value" $key
    "pattern" $.keyPattern "wants" $.key) -}}
{{- /* Without quotes, servers refuse such a key. Helm makes a string of it, so that the quotes cannot be seen here. */ -}}
{{- if regexMatch `^(true|false|-?[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?)$` $key -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: in `%s`, `%s` has a key that YAML reads as `%s`, and the chart cannot tell whether it is in quotes"
      $.file $.place $key)
    (printf "choose another name than `%s`; YAML reads `yes` and `on` as `true`, and `010` as `8`" $key)) -}}
{{- end -}}
{{- include "fabric-injector.checkText" (merge
    (dict "place" (printf "%s[%s]" $.place (toRawJson $key)) "value" $item "wants" $.item) (omit $ "value")) -}}
{{- end -}}
{{- end -}}

{{/* Fails for a `match` that servers refuse. Takes its `file`, the `match`, and whether it is that of an `extension`. */}}
{{- define "fabric-injector.checkMatch" -}}
{{- $part := `[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?` -}}
{{- $domain := `[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*` -}}
{{- $name := printf "^(%s/)?%s$" $domain $part -}}
{{- $annotation := dict "keyPattern" $name "key" "the name of an annotation" -}}
{{- $keys := dict
    "anyAnnotation" (merge (dict "item" "a text other than `*`" "pattern" `(?s)^([^*]|..+)?$`) $annotation)
    "exceptAnnotation" (merge (dict "item" "a text" "pattern" "") $annotation)
    "labels" (dict "keyPattern" $name "key" "the name of a label" "item" "the value of a label"
      "pattern" (printf "^(%s)?$" $part))
    "namespaces" (dict "item" "the name of a namespace" "pattern" "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
    "ownerKinds" (dict "item" "`Kind` or `Kind.group`" "pattern" (printf "^[A-Za-z][A-Za-z0-9]*([.]%s)?$" (replace "A-Za-z" "a-z" $domain)))
    "when" (dict "wants" "a condition without `${` and `}`" "pattern" `^\s*([^\s$]|[$][^{])`) -}}
{{- if not (kindIs "map" .match) -}}
{{- include "fabric-injector.refuseValue" (dict "file" .file "place" "spec.match" "value" .match "wants" "a map") -}}
{{- end -}}
{{- include "fabric-injector.checkKeys" (dict "file" .file "map" "`spec.match`" "value" .match
    "known" (keys $keys | sortAlpha)) -}}
{{- range $key, $value := .match -}}
{{- /* An extension drops a key of its base by an empty one. */ -}}
{{- $rule := merge (dict "file" $.file "place" (printf "spec.match.%s" $key) "value" $value "mayBeEmpty" $.extension)
    (get $keys $key) -}}
{{- if eq $key "when" -}}
{{- if not (kindIs "bool" $value) -}}{{- include "fabric-injector.checkText" $rule -}}{{- end -}}
{{- else if hasKey $rule "key" -}}{{- include "fabric-injector.checkPairs" $rule -}}
{{- else -}}{{- include "fabric-injector.checkTexts" $rule -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fails for a `spec` of another form. Takes its `file` and the `spec`. */}}
{{- define "fabric-injector.checkSpec" -}}
{{- $spec := .spec -}}
{{- $at := dict "file" .file -}}
{{- $name := dict "pattern" "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
  "wants" "a name of lower-case letters, digits and hyphens" -}}
{{- if hasKey $spec "match" -}}
{{- include "fabric-injector.checkMatch" (dict "file" .file "match" $spec.match "extension" (hasKey $spec "extends")) -}}
{{- end -}}
{{- if hasKey $spec "extends" -}}
{{- $extends := merge (dict "place" "spec.extends" "value" $spec.extends "item" $name.wants "mayBeEmpty" true) $name $at -}}
{{- include (kindIs "slice" $spec.extends | ternary "fabric-injector.checkTexts" "fabric-injector.checkText") $extends -}}
{{- end -}}
{{- if hasKey $spec "provider" -}}
{{- include "fabric-injector.checkText" (merge (dict "place" "spec.provider" "value" $spec.provider) $name $at) -}}
{{- end -}}
{{- if hasKey $spec "gpus" -}}
{{- if not (kindIs "map" $spec.gpus) -}}
{{- include "fabric-injector.refuseValue" (merge (dict "place" "spec.gpus" "value" $spec.gpus "wants" "a map") $at) -}}
{{- end -}}
{{- end -}}
{{- if hasKey (default dict $spec.gpus) "resources" -}}
{{- include "fabric-injector.checkTexts" (merge (dict "place" "spec.gpus.resources" "value" $spec.gpus.resources
    "item" "the name of a resource" "pattern" "^[^\\s]+$") $at) -}}
{{- end -}}
{{- if hasKey $spec "parameters" -}}
{{- $wants := merge (dict "wants" "a map") $at -}}
{{- if not (kindIs "map" $spec.parameters) -}}
{{- include "fabric-injector.refuseValue" (merge (dict "place" "spec.parameters" "value" $spec.parameters) $wants) -}}
{{- end -}}
{{- range $key, $value := $spec.parameters -}}
{{- if not (or (kindIs "map" $value) (hasKey $spec "extends")) -}}
{{- include "fabric-injector.refuseValue" (merge
    (dict "place" (printf "spec.parameters.%s" $key) "value" $value) $wants) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fails for a policy that is wrong together with what it extends. Takes its `file` and the resolved `policy`. */}}
{{- define "fabric-injector.checkResolved" -}}
{{- range $key := list "provider" "gpuResources" "match" -}}
{{- $place := eq $key "gpuResources" | ternary "gpus.resources" $key -}}
{{- if not (get $.policy $key) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: in `%s`, `spec` has no `%s`" $.file $place) (printf "add `%s:`" $place)) -}}
{{- end -}}
{{- end -}}
{{- if not (or .policy.match.anyAnnotation .policy.match.labels) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: in `%s`, `match` selects pods that do not ask for the fabric" .file)
    "give `anyAnnotation` or `labels`; the other keys only restrict what these match") -}}
{{- end -}}
{{- range $name, $parameter := .policy.parameters -}}
{{- $at := dict "file" $.file -}}
{{- $place := printf "spec.parameters.%s" $name -}}
{{- include "fabric-injector.checkText" (merge (dict "place" (print $place ".type") "value" $parameter.type
    "pattern" "^(integer|number|string|boolean|quantity|stringList|template)$" "wants" (print "`integer`, `number`, "
    "`string`, `boolean`, `quantity`, `stringList` or `template`")) $at) -}}
{{- if hasKey $parameter "enum" -}}
{{- include "fabric-injector.checkTexts" (merge (dict "place" (print $place ".enum") "value" $parameter.enum
    "item" "a text" "pattern" "") $at) -}}
{{- end -}}
{{- range $key := list "minimum" "maximum" -}}
{{- $isQuantity := and (eq $parameter.type "quantity") (kindIs "string" (get $parameter $key)) -}}
{{- if and (hasKey $parameter $key) (not (or $isQuantity (kindIs "float64" (get $parameter $key)))) -}}
{{- include "fabric-injector.refuseValue" (merge (dict "place" (printf "%s.%s" $place $key)
    "value" (get $parameter $key) "wants" "a number") $at) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A policy file, read. Takes its name as `file`, and its `text`. */}}
{{- define "fabric-injector.ownPolicy" -}}
{{- $file := .file -}}
{{- if not (regexMatch "^[-A-Za-z0-9_][-A-Za-z0-9_.]*[.]ya?ml$" $file) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` is not the name of a policy file" $file)
    "it has to end with `.yaml`, without `/` and without a leading dot") -}}
{{- end -}}
{{- if not (kindIs "string" .text) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` is not the text of a policy file" $file)
    "use `--set-file`, or `|` in a values file") -}}
{{- end -}}
{{- $documents := 0 -}}
{{- range regexSplit `(?m)^(?:---|\.\.\.)(?:\s|$)` .text -1 -}}
{{- if regexMatch `(?m)^[ \t]*[^#%\s]` . -}}{{- $documents = add1 $documents -}}{{- end -}}
{{- end -}}
{{- if gt (int $documents) 1 -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` has %d documents" $file $documents) "put each policy under a name of its own") -}}
{{- end -}}
{{- /* Helm takes them for the end of a line, and the servers for characters like any other. */ -}}
{{- if regexMatch `[\x{85}\x{2028}\x{2029}]` .text -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` has one of the characters U+0085, U+2028 and U+2029, which the chart does not read as the servers do" $file)
    "remove it, or write it as `\\u2028` in double quotes") -}}
{{- end -}}
{{- /* Of a key and the same one by `<<`, Helm takes the last, and the servers take the one that is written out. */ -}}
{{- if regexMatch `(?m)(^|[{,\s])(<<|"<<"|'<<')\s*:` .text -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` has a merge key (`<<`), which the chart does not read as the servers do" $file)
    "write out what it merges") -}}
{{- end -}}
{{- $policy := fromYaml .text -}}
{{- with get $policy "Error" -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` is not valid YAML: %v" $file .)
    "use the text of a policy file, for example with `--set-file`") -}}
{{- end -}}
{{- if not (and (eq "FabricPolicy" (toString $policy.kind))
      (eq "fabric-injector.io/v1alpha1" (toString $policy.apiVersion))) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` is not a policy of this version" $file)
    "write `apiVersion: fabric-injector.io/v1alpha1` and `kind: FabricPolicy`") -}}
{{- end -}}
{{- include "fabric-injector.checkKeys" (dict "file" $file "map" "a policy" "value" $policy
    "known" (list "apiVersion" "kind" "metadata" "spec")) -}}
{{- range $key := list "metadata" "spec" -}}
{{- if not (kindIs "map" (get $policy $key)) -}}
{{- include "fabric-injector.refuseValue" (dict "file" $file "place" $key "value" (index $policy $key)
    "wants" "a map") -}}
{{- end -}}
{{- end -}}
{{- include "fabric-injector.checkKeys" (dict "file" $file "map" "`metadata`" "value" $policy.metadata
    "known" (list "name")) -}}
{{- include "fabric-injector.checkText" (dict "file" $file "place" "metadata.name" "value" $policy.metadata.name
    "pattern" "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
    "wants" "a name of lower-case letters, digits and hyphens") -}}
{{- include "fabric-injector.checkSpec" (dict "file" $file "spec" $policy.spec) -}}
{{- toJson (dict "file" $file "spec" $policy.spec "name" $policy.metadata.name) -}}
{{- end -}}

{{/* The policies in `extraPolicies` as they are written, by name: `file` and `spec`. */}}
{{- define "fabric-injector.ownPolicies" -}}
{{- $policies := dict -}}
{{- range $file, $text := .Values.extraPolicies -}}
{{- $policy := include "fabric-injector.ownPolicy" (dict "file" $file "text" $text) | fromJson -}}
{{- if hasKey $policies $policy.name -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: two policies are called `%s`; `%s` is one of them" $policy.name $file)
    "change the `metadata.name` of one") -}}
{{- end -}}
{{- $_ := set $policies $policy.name $policy -}}
{{- end -}}
{{- toJson $policies -}}
{{- end -}}
