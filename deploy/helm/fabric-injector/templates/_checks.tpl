{{/* The validation of values that the schema cannot express. The template of the Deployment includes it. */}}

{{/* Fails with an error and a hint. Takes both in a list. */}}
{{- define "fabric-injector.refuse" -}}
{{- fail (printf "\n\n%s\nhint: %s\n" (index . 0) (index . 1)) -}}
{{- end -}}

{{- define "fabric-injector.check" -}}
{{- if or (eq .Release.Namespace "default") (hasPrefix "kube-" .Release.Namespace) -}}
{{- include "fabric-injector.refuse" (list
    (printf "the namespace of the release is `%s`, and pods in the namespace of the server are not injected" .Release.Namespace)
    "choose a namespace for the server alone, as in `--namespace fabric-injector --create-namespace`") -}}
{{- end -}}
{{- /* API servers take no other name for a Service (RFC 1035), and more for a release and other objects. */ -}}
{{- $fullname := include "fabric-injector.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $fullname) -}}
{{- include "fabric-injector.refuse" (list
    (printf "the objects would be called `%s`, which cannot be the name of a Service" $fullname)
    "begin with a letter and use lower-case letters, digits and hyphens, in another release name or in `fullnameOverride`") -}}
{{- end -}}
{{- if and .Values.certManager.enabled .Values.tls.secretName -}}
{{- include "fabric-injector.refuse" (list
    "`certManager.enabled` and `tls.secretName` are both given, but there is one certificate"
    "remove one of the two") -}}
{{- end -}}
{{- /* Not in the schema, whose errors quote the value, which may be a key. */ -}}
{{- range $key, $bundle := dict "tls.caBundle" .Values.tls.caBundle "server.clientCaBundle" .Values.server.clientCaBundle -}}
{{- if and $bundle (not (hasPrefix "-----BEGIN CERTIFICATE-----" (trim $bundle))) -}}
{{- include "fabric-injector.refuse" (list
    (printf "`%s` is not a certificate in PEM" $key) (printf "use `--set-file %s=ca.crt`" $key)) -}}
{{- end -}}
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
{{- if eq (int .Values.ports.webhook) (int .Values.ports.admin) -}}
{{- include "fabric-injector.refuse" (list
    (printf "ports: `webhook` and `admin` are both %d" (int .Values.ports.admin))
    "choose another port for one of them") -}}
{{- end -}}
{{- if and .Values.hostNetwork (has 10250 (list (int .Values.ports.webhook) (int .Values.ports.admin))) -}}
{{- include "fabric-injector.refuse" (list
    "ports: with `hostNetwork`, 10250 is the port of the kubelet"
    "choose another port, or set `hostNetwork: false`") -}}
{{- end -}}
{{- end -}}
