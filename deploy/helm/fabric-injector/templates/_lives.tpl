{{/* How long certificates live, and what has to hold for that. */}}

{{/* The seconds of a time such as `30d`. What has more than ten digits is longer than anything that is allowed, and
might be more than a number holds; so it counts as the most that ten digits say. */}}
{{- define "fabric-injector.seconds" -}}
{{- $digits := regexReplaceAll "^0*([0-9]+)[smhd]$" . "${1}" -}}
{{- if gt (len $digits) 10 -}}{{- $digits = "9999999999" -}}{{- end -}}
{{- $units := dict "s" 1 "m" 60 "h" 3600 "d" 86400 -}}
{{- mul (int64 $digits) (get $units (regexFind "[smhd]$" .)) -}}
{{- end -}}

{{- define "fabric-injector.checkLives" -}}
{{- $times := .Values.certificates -}}
{{- $life := include "fabric-injector.seconds" $times.life | int64 -}}
{{- $caLife := include "fabric-injector.seconds" $times.caLife | int64 -}}
{{- $caOverlap := include "fabric-injector.seconds" $times.caOverlap | int64 -}}
{{- $most := include "fabric-injector.seconds" "36500d" | int64 -}}
{{- range $key := keys $times | sortAlpha -}}
{{- if gt (include "fabric-injector.seconds" (get $times $key) | int64) $most -}}
{{- include "fabric-injector.refuse" (list
    (printf "certificates: `%s: %s` is longer than a hundred years" $key (get $times $key))
    "`36500d` is the most") -}}
{{- end -}}
{{- end -}}
{{- if lt $life 10 -}}
{{- include "fabric-injector.refuse" (list
    (printf "certificates: `life: %s` leaves no time to renew the certificate" $times.life)
    "`10s` is the least, and that is for tests") -}}
{{- end -}}
{{- if lt $caOverlap 3 -}}
{{- include "fabric-injector.refuse" (list
    (printf "certificates: `caOverlap: %s` leaves API servers no time to learn of a new CA" $times.caOverlap)
    "`3s` is the least, and that is for tests") -}}
{{- end -}}
{{- if gt $life $caLife -}}
{{- include "fabric-injector.refuse" (list
    (printf "certificates: `life: %s` is longer than `caLife: %s`" $times.life $times.caLife)
    "a certificate has to end before its CA does") -}}
{{- end -}}
{{- /* The next CA is made at two thirds of a life, and has to be in use before its end. */ -}}
{{- if gt (mul 4 $caOverlap) $caLife -}}
{{- include "fabric-injector.refuse" (list
    (printf "certificates: `caOverlap: %s` is too long for `caLife: %s`" $times.caOverlap $times.caLife)
    "a quarter of `caLife` is the most") -}}
{{- end -}}
{{- end -}}
