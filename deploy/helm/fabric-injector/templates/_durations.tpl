{{/* The durations of certificates, and their limits. */}}

{{/* The seconds of a duration such as `30d`. A number of more than ten digits might overflow, and is longer than allowed
anyway, so that it counts as the largest of ten digits. */}}
{{- define "fabric-injector.seconds" -}}
{{- $digits := regexReplaceAll "^0*([0-9]+)[smhd]$" . "${1}" -}}
{{- if gt (len $digits) 10 -}}{{- $digits = "9999999999" -}}{{- end -}}
{{- $units := dict "s" 1 "m" 60 "h" 3600 "d" 86400 -}}
{{- mul (int64 $digits) (get $units (regexFind "[smhd]$" .)) -}}
{{- end -}}

{{- define "fabric-injector.checkDurations" -}}
{{- $durations := .Values.certificates -}}
{{- $duration := include "fabric-injector.seconds" $durations.duration | int64 -}}
{{- $caDuration := include "fabric-injector.seconds" $durations.caDuration | int64 -}}
{{- $caOverlap := include "fabric-injector.seconds" $durations.caOverlap | int64 -}}
{{- $most := include "fabric-injector.seconds" "36500d" | int64 -}}
{{- range $key := keys $durations | sortAlpha -}}
{{- if gt (include "fabric-injector.seconds" (get $durations $key) | int64) $most -}}
{{- include "fabric-injector.refuse" (list
    (printf "certificates: `%s: %s` is longer than a hundred years" $key (get $durations $key))
    "the longest is `36500d`") -}}
{{- end -}}
{{- end -}}
{{- if lt $duration 10 -}}
{{- include "fabric-injector.refuse" (list
    (printf "certificates: `duration: %s` leaves no time to renew the certificate" $durations.duration)
    "the shortest is `10s`, which is for tests") -}}
{{- end -}}
{{- if lt $caOverlap 3 -}}
{{- include "fabric-injector.refuse" (list
    (printf "certificates: `caOverlap: %s` leaves API servers no time to read a new CA" $durations.caOverlap)
    "the shortest is `3s`, which is for tests") -}}
{{- end -}}
{{- if gt $duration $caDuration -}}
{{- include "fabric-injector.refuse" (list
    (printf "certificates: `duration: %s` is longer than `caDuration: %s`" $durations.duration $durations.caDuration)
    "a certificate must not outlast its CA") -}}
{{- end -}}
{{- if gt (mul 4 $caOverlap) $caDuration -}}
{{- include "fabric-injector.refuse" (list
    (printf "certificates: `caOverlap: %s` is too long for `caDuration: %s`" $durations.caOverlap $durations.caDuration)
    "it is at most a quarter of `caDuration`") -}}
{{- end -}}
{{- end -}}
