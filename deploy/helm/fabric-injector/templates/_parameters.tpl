{{/*
The validation of parameters under `multinodeNetworking`, by the policies that declare them. The servers check the same
and more; this check fails the installation instead.
*/}}

{{- define "fabric-injector.checkParameters" -}}
{{- $all := include "fabric-injector.allPolicies" . | fromJson -}}
{{- $used := include "fabric-injector.policies" . | fromJson -}}
{{- $usedProviders := list -}}
{{- range $name, $policy := $used -}}{{- $usedProviders = append $usedProviders $policy.provider -}}{{- end -}}
{{- range $provider, $settings := .Values.multinodeNetworking -}}
{{- $known := list "enabled" -}}
{{- range $name, $policy := $all -}}
{{- if eq $policy.provider $provider -}}
{{- $known = concat $known (keys $policy.parameters) -}}
{{- if or (hasKey $used $name) (not (has $provider $usedProviders)) -}}
{{- range $key, $value := $settings -}}
{{- if hasKey $policy.parameters $key -}}
{{- include "fabric-injector.checkValue" (dict
    "provider" $provider "place" $key "value" $value "policy" $name "parameter" (get $policy.parameters $key)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name := keys (default dict $settings) | sortAlpha -}}
{{- if not (or (has $name $known) $.Values.extraPoliciesConfigMap) -}}
{{- include "fabric-injector.refuse" (list
    (printf "multinodeNetworking.%s: no policy has the parameter `%s`" $provider $name)
    (printf "there are `%s`" (join "`, `" (sortAlpha (uniq $known))))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Fails if a parameter cannot have a value. In a table by labels of nodes, it checks each value. Takes `provider`, the
`place` of the `value` there, the name of the `policy` and its `parameter`.
*/}}
{{- define "fabric-injector.checkValue" -}}
{{- $parameter := .parameter -}}
{{- $value := .value -}}
{{- if kindIs "map" $value -}}
{{- range $key, $inner := $value -}}
{{- include "fabric-injector.checkValue" (dict
    "provider" $.provider "place" (printf "%s.%s" $.place $key) "value" $inner "policy" $.policy
    "parameter" $parameter) -}}
{{- end -}}
{{- else if not (kindIs "invalid" $value) -}}
{{- $isNumber := has (kindOf $value) (list "float64" "int64" "int") -}}
{{- $wants := "" -}}
{{- if eq $parameter.type "boolean" -}}
{{- if not (kindIs "bool" $value) -}}{{- $wants = "`true` or `false`" -}}{{- end -}}
{{- else if eq $parameter.type "number" -}}
{{- if not $isNumber -}}{{- $wants = "a number" -}}{{- end -}}
{{- else if eq $parameter.type "integer" -}}
{{- if not (and $isNumber (eq (floor $value) (float64 $value))) -}}{{- $wants = "a whole number" -}}{{- end -}}
{{- else if eq $parameter.type "quantity" -}}
{{- if not (or $isNumber (and (kindIs "string" $value)
      (regexMatch "^[0-9]+([.][0-9]+)?(e[0-9]+|[kMGTPE]|[KMGTPE]i)?$" $value))) -}}
{{- $wants = "a quantity such as `64Gi`" -}}
{{- end -}}
{{- else if eq $parameter.type "stringList" -}}
{{- if kindIs "slice" $value -}}
{{- range $value -}}{{- if not (kindIs "string" .) -}}{{- $wants = "a list of strings" -}}{{- end -}}{{- end -}}
{{- else -}}{{- $wants = "a list of strings" -}}
{{- end -}}
{{- else if not (kindIs "string" $value) -}}{{- $wants = "a string" -}}
{{- end -}}
{{- if $wants -}}
{{- $hint := printf "`fabric-injector policy show %s` describes it" .policy -}}
{{- if and (kindIs "string" $value) (has $parameter.type (list "boolean" "integer" "number" "stringList")) -}}
{{- $hint = "write it without quotes, in a values file or with `--set-json`; Helm reads `--set a=0.5` as text" -}}
{{- else if has $parameter.type (list "string" "template") -}}
{{- $hint = "put it in quotes, or use `--set-string`" -}}
{{- end -}}
{{- include "fabric-injector.refuse" (list
    (printf "multinodeNetworking.%s: `%s` has to be %s, and `%s` is not" .provider .place $wants (toRawJson $value))
    $hint) -}}
{{- end -}}
{{- include "fabric-injector.checkBounds" . -}}
{{- end -}}
{{- end -}}

{{/* Fails if a value of the right type is not within the bounds of its parameter. Takes what `checkValue` takes. */}}
{{- define "fabric-injector.checkBounds" -}}
{{- $parameter := .parameter -}}
{{- $wants := "" -}}
{{- if has $parameter.type (list "integer" "number") -}}
{{- if and (hasKey $parameter "minimum") (lt (float64 .value) (float64 $parameter.minimum)) -}}
{{- $wants = printf "at least %v" $parameter.minimum -}}
{{- else if and (hasKey $parameter "maximum") (gt (float64 .value) (float64 $parameter.maximum)) -}}
{{- $wants = printf "at most %v" $parameter.maximum -}}
{{- end -}}
{{- else if hasKey $parameter "enum" -}}
{{- if not (has .value $parameter.enum) -}}
{{- $wants = printf "one of `%s`" (join "`, `" $parameter.enum) -}}
{{- end -}}
{{- else if eq $parameter.type "stringList" -}}
{{- $items := len .value -}}
{{- if and (hasKey $parameter "minimum") (lt $items (int $parameter.minimum)) -}}
{{- $wants = printf "a list of at least %v items" $parameter.minimum -}}
{{- else if and (hasKey $parameter "maximum") (gt $items (int $parameter.maximum)) -}}
{{- $wants = printf "a list of at most %v items" $parameter.maximum -}}
{{- end -}}
{{- end -}}
{{- if $wants -}}
{{- include "fabric-injector.refuse" (list
    (printf "multinodeNetworking.%s: `%s` has to be %s, and `%s` is not"
      .provider .place $wants (toRawJson .value))
    (printf "`fabric-injector policy show %s` describes it" .policy)) -}}
{{- end -}}
{{- end -}}
