{{/* Fails with an error and a hint, if a condition holds. Takes the three in a list. */}}
{{- define "fabric-injector.refuseIf" -}}
{{- if first . -}}{{- fail (printf "\n\n%s\nhint: %s\n" (index . 1) (index . 2)) -}}{{- end -}}
{{- end -}}

{{/* The validation of values that the schema cannot express. The template of the Deployment includes it. */}}
{{- define "fabric-injector.check" -}}
{{- include "fabric-injector.refuseIf" (list (or (eq .Release.Namespace "default") (hasPrefix "kube-" .Release.Namespace))
    (printf "the namespace of the release is `%s`, and pods in the namespace of the server are not injected" .Release.Namespace)
    "choose a namespace for the server alone, as in `--namespace fabric-injector --create-namespace`") -}}
{{- /* API servers take no other name for a Service (RFC 1035), and more for a release and other objects. */ -}}
{{- $fullname := include "fabric-injector.fullname" . -}}
{{- include "fabric-injector.refuseIf" (list (not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $fullname))
    (printf "the objects would be called `%s`, which cannot be the name of a Service" $fullname)
    "begin with a letter and use lower-case letters, digits and hyphens, in another release name or in `fullnameOverride`") -}}
{{- include "fabric-injector.refuseIf" (list (and .Values.certManager.enabled .Values.tls.secretName)
    "`certManager.enabled` and `tls.secretName` are both given, but there is one certificate"
    "remove one of the two") -}}
{{- /* Not in the schema, whose errors quote the value, which may be a key. */ -}}
{{- range $key, $bundle := dict "tls.caBundle" .Values.tls.caBundle "server.clientCaBundle" .Values.server.clientCaBundle -}}
{{- include "fabric-injector.refuseIf" (list
    (and $bundle (not (hasPrefix "-----BEGIN CERTIFICATE-----" (trim $bundle))))
    (printf "`%s` is not a certificate in PEM" $key) (printf "use `--set-file %s=ca.crt`" $key)) -}}
{{- end -}}
{{- include "fabric-injector.refuseIf" (list (and .Values.tls.secretName (not .Values.tls.caBundle))
    "tls: `secretName` is given without `caBundle`, but API servers need the CA of the certificate"
    "use `--set-file tls.caBundle=ca.crt`") -}}
{{- include "fabric-injector.refuseIf" (list (and .Values.tls.caBundle (not .Values.tls.secretName))
    "tls: `caBundle` is given without `secretName`" "name the Secret with the certificate in `tls.secretName`") -}}
{{- range .Values.server.extraEnv -}}
{{- include "fabric-injector.refuseIf" (list (regexMatch "^(FABRIC_INJECTOR_|KUBECONFIG$)" .name)
    (printf "server: `extraEnv` has `%s`, the variable of an option of `serve`" .name)
    "set the option by its value of the chart, or by `server.extraArgs`") -}}
{{- end -}}
{{- $hours := dict "duration" "2160h" "renewBefore" "0h" -}}
{{- range $key, $_ := $hours -}}{{- with get $.Values.certManager $key -}}{{- $_ := set $hours $key . -}}{{- end -}}{{- end -}}
{{- $bothInHours := and (regexMatch "^[0-9]+h$" $hours.duration) (regexMatch "^[0-9]+h$" $hours.renewBefore) -}}
{{- include "fabric-injector.refuseIf" (list
    (and $bothInHours (ge (trimSuffix "h" $hours.renewBefore | int) (trimSuffix "h" $hours.duration | int)))
    (printf "certManager: `renewBefore` is %s, and `duration` is %s" $hours.renewBefore $hours.duration)
    "renew the certificate later, or let it live longer") -}}
{{- include "fabric-injector.refuseIf" (list (eq (int .Values.ports.webhook) (int .Values.ports.admin))
    (printf "ports: `webhook` and `admin` are both %d" (int .Values.ports.admin)) "choose another port for one of them") -}}
{{- include "fabric-injector.refuseIf" (list
    (and .Values.hostNetwork (has 10250 (list (int .Values.ports.webhook) (int .Values.ports.admin))))
    "ports: with `hostNetwork`, 10250 is the port of the kubelet" "choose another port, or set `hostNetwork: false`") -}}
{{- end -}}
