{{/* What the schema cannot say about values. Included once, by the template that renders the arguments. */}}

{{- define "fabric-injector.check" -}}
{{- include "fabric-injector.checkProvider" . -}}
{{- include "fabric-injector.checkConditions" . -}}
{{- include "fabric-injector.checkCertificates" . -}}
{{- end -}}

{{- define "fabric-injector.checkProvider" -}}
{{- $provider := include "fabric-injector.provider" . -}}
{{- $builtIn := include "fabric-injector.builtInPolicies" . | fromJson -}}
{{- $enabled := include "fabric-injector.enabledPolicy" . | fromJson -}}
{{- $extra := include "fabric-injector.extraPolicies" . | fromJson -}}
{{- if and .Values.extraPolicies .Values.extraPoliciesConfigMap -}}
{{- fail "\n\n`extraPolicies` and `extraPoliciesConfigMap` are both given\nhint: put all policies in one of the two\n" -}}
{{- end -}}
{{- $anyExtra := or .Values.extraPolicies .Values.extraPoliciesConfigMap -}}
{{- if not (or $provider $anyExtra) -}}
{{- fail "\n\nmultinodeNetworking: no provider is enabled, so no pod would be served\nhint: use `--set multinodeNetworking.aws.enabled=true`, or `azure`, `gcp` or `oci`, or give policies of your own in `extraPolicies`\n" -}}
{{- end -}}
{{- $known := list -}}
{{- range $name, $policy := merge (dict) $builtIn $extra -}}{{- $known = append $known $policy.spec.provider -}}{{- end -}}
{{- range $name, $settings := .Values.multinodeNetworking -}}
{{- if not (or (has $name $known) $.Values.extraPoliciesConfigMap) -}}
{{- fail (printf "\n\nmultinodeNetworking: no policy is for the provider `%s`\nhint: there are policies for `%s`\n" $name (join "`, `" (sortAlpha (uniq $known)))) -}}
{{- end -}}
{{- end -}}
{{- range $name, $policy := $extra -}}
{{- if and $provider (ne $policy.spec.provider $provider) -}}
{{- fail (printf "\n\nextraPolicies: the policy `%s` is for the provider `%s`, and `%s` is enabled\nhint: write `provider: %s` in the policy, or enable no provider to use only policies of your own\n" $name $policy.spec.provider $provider $provider) -}}
{{- end -}}
{{- if hasKey $enabled $name -}}
{{- fail (printf "\n\nextraPolicies: `%s` is also the name of the built-in policy of `%s`, which is enabled\nhint: to use yours instead, set `multinodeNetworking.%s.enabled=false`; its parameters there still count\n" $name $provider $provider) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "fabric-injector.checkConditions" -}}
{{- $hint := "hint: `fabric-injector manifests --policy FILE` prints them for your policies" -}}
{{- if .Values.extraPoliciesConfigMap -}}
{{- if not .Values.webhook.matchConditions -}}
{{- fail (printf "\n\nextraPoliciesConfigMap: the chart cannot read the policies in it, so `webhook.matchConditions` has to say which pods they are for\n%s\n" $hint) -}}
{{- end -}}
{{- if and .Values.guard.enabled (not .Values.guard.matchConditions) -}}
{{- fail (printf "\n\nextraPoliciesConfigMap: the chart cannot read the policies in it, so `guard.matchConditions` has to say which pods they are for\n%s; or set `guard.enabled=false`\n" $hint) -}}
{{- end -}}
{{- else if or .Values.webhook.matchConditions .Values.guard.matchConditions -}}
{{- fail "\n\n`webhook.matchConditions` and `guard.matchConditions` are generated from the policies, and may be given only with `extraPoliciesConfigMap`\nhint: to serve fewer pods, use `webhook.excludedNamespaces` or `webhook.namespaceSelectorExpressions`\n" -}}
{{- end -}}
{{- end -}}

{{- define "fabric-injector.checkCertificates" -}}
{{- if and .Values.certManager.enabled .Values.tls.secretName -}}
{{- fail "\n\n`certManager.enabled` and `tls.secretName` are both given, and there is one certificate\nhint: leave out one of the two\n" -}}
{{- end -}}
{{- if and .Values.tls.secretName (not .Values.tls.caBundle) -}}
{{- fail "\n\ntls: `secretName` is given without `caBundle`, and API servers have to know the CA of the certificate\nhint: use `--set-file tls.caBundle=ca.crt`\n" -}}
{{- end -}}
{{- if and .Values.tls.caBundle (not .Values.tls.secretName) -}}
{{- fail "\n\ntls: `caBundle` is given without `secretName`, the Secret with the certificate\n" -}}
{{- end -}}
{{- end -}}
