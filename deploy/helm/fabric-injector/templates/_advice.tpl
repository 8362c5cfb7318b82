{{/* The kinds of workloads with pod templates. */}}
{{- define "fabric-injector.workloads" -}}
apps: [deployments, statefulsets, daemonsets]
batch: [jobs, cronjobs]
argoproj.io: [workflows, workflowtemplates, cronworkflows, rollouts]
batch.volcano.sh: [jobs]
jobset.x-k8s.io: [jobsets]
kubeflow.org: [jaxjobs, mpijobs, mxjobs, paddlejobs, pytorchjobs, tfjobs, xgboostjobs]
leaderworkerset.x-k8s.io: [leaderworkersets]
ray.io: [rayclusters, rayjobs, rayservices]
trainer.kubeflow.org: [trainjobs, trainingruntimes]
{{- end -}}

{{/* The fields of a `spec` that have pod templates, or a template in a text, as strings of CEL. */}}
{{- define "fabric-injector.templateFields" -}}
"template", "jobTemplate", "replicatedJobs", "leaderWorkerTemplate", "headGroupSpec", "rayClusterSpec", "rayClusterConfig",
"tasks", "templates", "workflowSpec", "runtimePatches", "podTemplateOverrides", "jaxReplicaSpecs", "mpiReplicaSpecs",
"mxReplicaSpecs", "paddleReplicaSpecs", "pytorchReplicaSpecs", "tfReplicaSpecs", "xgbReplicaSpecs"
{{- end -}}

{{/*
Whether a workload has something to be said about: a template requests GPUs, or something around the pods asks for the
fabric, be it under a longer name, as a label or in another place. The program generates the same text
(crates/engine/src/registration). Of the kinds whose pod template has one place, most have no GPUs; the others are always sent.
*/}}
{{- define "fabric-injector.adviceExpression" -}}
{{- $triggers := include "fabric-injector.triggers" . | fromJson -}}
{{- $terms := list -}}
{{- with $triggers.annotations -}}
{{- $likes := list -}}
{{- range . -}}{{- $likes = append $likes (include "fabric-injector.isLikeTrigger" .) -}}{{- end -}}
{{- $has := "has(place.metadata.%[1]s) && place.metadata.%[1]s.exists(key, %[2]s)" -}}
{{- $any := uniq $likes | sortAlpha | join " || " -}}
{{- $terms = list (printf "has(place.metadata) && (%s || %s)"
    (printf $has "annotations" $any) (printf $has "labels" $any)) -}}
{{- end -}}
{{- range $labels := $triggers.labels -}}
{{- $all := include "fabric-injector.labelTerms" (dict "labels" $labels "of" "place") | fromJsonArray -}}
{{- $terms = append $terms (printf "has(place.metadata) && %s" (join " && " $all)) -}}
{{- end -}}
{{- $policies := include "fabric-injector.policies" . | fromJson -}}
!(request.resource.group in ["apps", "batch"] || request.resource.resource == "rollouts") || {{ "" -}}
(has(object.spec.jobTemplate) ? {{ "" -}}
[object, object.spec.jobTemplate, object.spec.jobTemplate.spec.template] : {{ "" -}}
has(object.spec.template) ? [object, object.spec.template] : [object]).exists(place, {{ include "fabric-injector.anyOf" $terms }} || {{ "" -}}
has(place.spec) && has(place.spec.containers) && {{ "" -}}
({{ include "fabric-injector.requestsGpus" (dict "policies" $policies "pod" "place") }}))
{{- end -}}

{{/* The comparison of a key with that of a trigger: of a distinctive name, the part that slips and other prefixes keep. */}}
{{- define "fabric-injector.isLikeTrigger" -}}
{{- $name := splitList "/" . | last | trimPrefix "enable-" -}}
{{- if lt (len $name) 12 -}}key == {{ toRawJson . }}{{- else -}}key.contains({{ toRawJson $name }}){{- end -}}
{{- end -}}
