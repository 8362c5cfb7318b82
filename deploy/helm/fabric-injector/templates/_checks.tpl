{{/* The validation of values that the schema cannot express. The template of the Deployment includes it. */}}

{{/* Fails with an error and a hint. Takes both in a list. */}}
{{- define "fabric-injector.refuse" -}}
{{- fail (printf "\n\n%s\nhint: %s\n" (index . 0) (index . 1)) -}}
{{- end -}}

{{- define "fabric-injector.check" -}}
{{- include "fabric-injector.checkNamespace" . -}}
{{- include "fabric-injector.checkName" . -}}
{{- include "fabric-injector.checkLabels" . -}}
{{- include "fabric-injector.checkProvider" . -}}
{{- include "fabric-injector.checkParameters" . -}}
{{- include "fabric-injector.checkExtraPolicies" . -}}
{{- include "fabric-injector.checkConditions" . -}}
{{- include "fabric-injector.checkCertificates" . -}}
{{- include "fabric-injector.checkDurations" . -}}
{{- end -}}

{{- define "fabric-injector.checkNamespace" -}}
{{- if or (eq .Release.Namespace "default") (hasPrefix "kube-" .Release.Namespace) -}}
{{- include "fabric-injector.refuse" (list
    (printf "the namespace of the release is `%s`, and pods in the namespace of the server are not injected" .Release.Namespace)
    "choose a namespace for the server alone, as in `--namespace fabric-injector --create-namespace`") -}}
{{- end -}}
{{- end -}}

{{/* API servers take no other name for a Service (RFC 1035), and more for a release and other objects. */}}
{{- define "fabric-injector.checkName" -}}
{{- $fullname := include "fabric-injector.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $fullname) -}}
{{- include "fabric-injector.refuse" (list
    (printf "the objects would be called `%s`, which cannot be the name of a Service" $fullname)
    "begin with a letter and use lower-case letters, digits and hyphens, in another release name or in `fullnameOverride`") -}}
{{- end -}}
{{- end -}}

{{/* Fails for a label that an object would have twice. */}}
{{- define "fabric-injector.checkLabels" -}}
{{- $common := .Values.commonLabels -}}
{{- $more := dict "podLabels" .Values.podLabels "serviceMonitor.labels" .Values.serviceMonitor.labels
    "prometheusRule.labels" .Values.prometheusRule.labels "dashboard.labels" .Values.dashboard.labels -}}
{{- range $place, $labels := $more -}}
{{- range $key := keys (default dict $labels) -}}
{{- if hasKey (default dict $common) $key -}}
{{- include "fabric-injector.refuse" (list
    (printf "`%s` is in `commonLabels` and in `%s`" $key $place) "remove it from one of them") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "fabric-injector.checkProvider" -}}
{{- $known := list -}}
{{- range $name, $policy := include "fabric-injector.allPolicies" . | fromJson -}}
{{- $known = append $known $policy.provider -}}
{{- end -}}
{{- $provider := include "fabric-injector.provider" . -}}
{{- if not (or $provider .Values.extraPolicies .Values.extraPoliciesConfigMap .Values.nodes.watch) -}}
{{- include "fabric-injector.refuse" (list
    "multinodeNetworking: no provider is enabled, so no pod would be injected"
    (printf "use `--set multinodeNetworking.PROVIDER.enabled=true` with one of `%s`, let the nodes choose by `nodes.watch=true`, or add policies of your own to `extraPolicies`"
      (join "`, `" (sortAlpha (uniq $known))))) -}}
{{- end -}}
{{- range $name, $settings := .Values.multinodeNetworking -}}
{{- if not (or (has $name $known) $.Values.extraPoliciesConfigMap) -}}
{{- include "fabric-injector.refuse" (list
    (printf "multinodeNetworking: no policy has the provider `%s`" $name)
    (printf "there are policies for `%s`" (join "`, `" (sortAlpha (uniq $known))))) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "fabric-injector.checkExtraPolicies" -}}
{{- if and .Values.extraPolicies .Values.extraPoliciesConfigMap -}}
{{- include "fabric-injector.refuse" (list
    "`extraPolicies` and `extraPoliciesConfigMap` are both given"
    "put all policies in one of the two") -}}
{{- end -}}
{{- $provider := include "fabric-injector.provider" . -}}
{{- $enabled := include "fabric-injector.enabledPolicy" . | fromJson -}}
{{- range $name, $policy := include "fabric-injector.extraPolicies" . | fromJson -}}
{{- $theirs := $policy.provider -}}
{{- if and $provider (ne $theirs $provider) -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: the policy `%s` is for the provider `%s`, and `%s` is enabled" $name $theirs $provider)
    (printf "to use only policies of your own, set `multinodeNetworking.%s.enabled` to `false`; to use it next to `%s`, write `provider: %s` and another annotation or a condition in its `match`, because a pod that two policies match is rejected"
      $provider $provider $provider)) -}}
{{- end -}}
{{- if hasKey $enabled $name -}}
{{- include "fabric-injector.refuse" (list
    (printf "extraPolicies: `%s` is also the name of the built-in policy of `%s`, which is enabled" $name $provider)
    (printf "to use yours instead, set `multinodeNetworking.%s.enabled=false`; the parameters there still apply"
      $provider)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "fabric-injector.checkConditions" -}}
{{- $hint := "`fabric-injector manifests --policy FILE --image IMAGE` prints them for your policies" -}}
{{- $triggers := default dict .Values.extraPoliciesTriggers -}}
{{- $given := or .Values.webhook.matchConditions .Values.guard.matchConditions -}}
{{- if .Values.extraPoliciesConfigMap -}}
{{- $reason := print "extraPoliciesConfigMap: the chart cannot read the policies in it, so `%s` has to say which pods "
    "they match" -}}
{{- if not (or $triggers.annotations $triggers.labels) -}}
{{- include "fabric-injector.refuse" (list (printf $reason "extraPoliciesTriggers")
    "list the keys of `anyAnnotation` of each policy under `annotations`, or its `labels` if it has none") -}}
{{- end -}}
{{- if not .Values.webhook.matchConditions -}}
{{- include "fabric-injector.refuse" (list (printf $reason "webhook.matchConditions") $hint) -}}
{{- end -}}
{{- if and (include "fabric-injector.hasGuard" .) (not .Values.guard.matchConditions) -}}
{{- include "fabric-injector.refuse" (list
    (printf $reason "guard.matchConditions")
    (print $hint "; or set `guard.enabled=false`")) -}}
{{- end -}}
{{- range $block := list "webhook" "guard" -}}
{{- $names := list -}}
{{- range (get $.Values $block).matchConditions -}}
{{- if eq .name "has-trigger" -}}
{{- include "fabric-injector.refuse" (list
    "extraPoliciesConfigMap: the chart generates the condition `has-trigger` from `extraPoliciesTriggers`"
    "leave it out of `webhook.matchConditions` and `guard.matchConditions`") -}}
{{- else if has .name $names -}}
{{- include "fabric-injector.refuse" (list
    (printf "%s.matchConditions: two conditions are called `%s`" $block .name) "give one of them another name") -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- end -}}
{{- else if or $given $triggers.annotations $triggers.labels -}}
{{- include "fabric-injector.refuse" (list
    (print "`webhook.matchConditions`, `guard.matchConditions` and `extraPoliciesTriggers` are generated from the "
      "policies, and may be given only with `extraPoliciesConfigMap`")
    "to inject fewer pods, use `webhook.excludedNamespaces` or `webhook.namespaceSelectorExpressions`") -}}
{{- end -}}
{{- end -}}

{{- define "fabric-injector.checkCertificates" -}}
{{- if and .Values.certManager.enabled .Values.tls.secretName -}}
{{- include "fabric-injector.refuse" (list
    "`certManager.enabled` and `tls.secretName` are both given, but there is one certificate"
    "remove one of the two") -}}
{{- end -}}
{{- /* Not in the schema, whose errors quote the value, which may be a key. */ -}}
{{- if and .Values.tls.caBundle (not (hasPrefix "-----BEGIN CERTIFICATE-----" (trim .Values.tls.caBundle))) -}}
{{- include "fabric-injector.refuse" (list
    "tls: `caBundle` is not a certificate in PEM"
    "use `--set-file tls.caBundle=ca.crt`") -}}
{{- end -}}
{{- if and .Values.server.clientCaBundle (not (hasPrefix "-----BEGIN CERTIFICATE-----" (trim .Values.server.clientCaBundle))) -}}
{{- include "fabric-injector.refuse" (list
    "server: `clientCaBundle` is not a certificate in PEM"
    "use `--set-file server.clientCaBundle=clients.crt`") -}}
{{- end -}}
{{- if and .Values.tls.secretName (not .Values.tls.caBundle) -}}
{{- include "fabric-injector.refuse" (list
    "tls: `secretName` is given without `caBundle`, but API servers need the CA of the certificate"
    "use `--set-file tls.caBundle=ca.crt`") -}}
{{- end -}}
{{- if and .Values.tls.caBundle (not .Values.tls.secretName) -}}
{{- include "fabric-injector.refuse" (list
    "tls: `caBundle` is given without `secretName`"
    "name the Secret with the certificate in `tls.secretName`") -}}
{{- end -}}
{{- end -}}
