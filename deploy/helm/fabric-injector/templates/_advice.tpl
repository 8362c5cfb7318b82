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
