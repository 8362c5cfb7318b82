{{/*
The kinds of workloads, those of `facts/kinds.yaml` and two whose template the program finds without
it. Each resource is the plural with an `s`.
*/}}
{{- define "fabric-injector.workloads" -}}
- DaemonSet.apps
- Deployment.apps
- StatefulSet.apps
- NIMPipeline.apps.nvidia.com
- NIMService.apps.nvidia.com
- ClusterWorkflowTemplate.argoproj.io
- CronWorkflow.argoproj.io
- Rollout.argoproj.io
- Workflow.argoproj.io
- WorkflowTemplate.argoproj.io
- CronJob.batch
- Job.batch
- PaddleJob.batch.paddlepaddle.org
- Job.batch.volcano.sh
- ElasticJob.elastic.pytorch.org
- PodCliqueSet.grove.io
- JobSet.jobset.x-k8s.io
- JAXJob.kubeflow.org
- MPIJob.kubeflow.org
- MXJob.kubeflow.org
- PaddleJob.kubeflow.org
- PyTorchJob.kubeflow.org
- TFJob.kubeflow.org
- XGBoostJob.kubeflow.org
- LeaderWorkerSet.leaderworkerset.x-k8s.io
- DynamoComponentDeployment.nvidia.com
- DynamoGraphDeployment.nvidia.com
- RayClusterFleet.orchestration.aibrix.ai
- RayClusterReplicaSet.orchestration.aibrix.ai
- RayCluster.ray.io
- RayJob.ray.io
- RayService.ray.io
- HyperPodPyTorchJob.sagemaker.amazonaws.com
- InferenceService.serving.kserve.io
- LLMInferenceService.serving.kserve.io
- NodeSet.slinky.slurm.net
- ScheduledSparkApplication.sparkoperator.k8s.io
- SparkApplication.sparkoperator.k8s.io
- ClusterTask.tekton.dev
- Pipeline.tekton.dev
- PipelineRun.tekton.dev
- Task.tekton.dev
- TaskRun.tekton.dev
- ClusterTrainingRuntime.trainer.kubeflow.org
- TrainJob.trainer.kubeflow.org
- TrainingRuntime.trainer.kubeflow.org
- AppWrapper.workload.codeflare.dev
- ModelServing.workload.serving.volcano.sh
- RoleBasedGroup.workloads.x-k8s.io
{{- end -}}

{{/* The fields of a `spec` that have pod templates, a template in a text, or what pods are made of, as strings of CEL. */}}
{{- define "fabric-injector.templateFields" -}}
"annotations", "components", "driver", "executor", "headGroupSpec", "jaxReplicaSpecs", "jobTemplate", "leaderWorkerTemplate",
"mpiReplicaSpecs", "multiNode", "mxReplicaSpecs", "paddleReplicaSpecs", "predictor", "pytorchReplicaSpecs", "rayClusterConfig",
"rayClusterSpec", "replicaSpecs", "replicatedJobs", "resources", "roles", "services", "slurmd", "tasks", "template", "templates",
"podTemplateOverrides", "runtimePatches", "tfReplicaSpecs", "trainer", "worker", "workflowSpec", "xgbReplicaSpecs"
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
