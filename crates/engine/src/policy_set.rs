//! The policies in use, and the choice among them for a pod.

mod decision;
mod providers;

use std::collections::BTreeSet;

use memchr::memmem::Finder;
use serde_json::Value;

use crate::analysis::{copy, warning_of_too_many};
use crate::record::ChangeLog;
use crate::validate;
use crate::{
    CLAIMS, CONTAINER_LISTS, DEVICE_CLASS, Mutation, NODES, Outcome, Reason, SKIPPED, STAMP, Trace, Warning,
    WarningKind, inject, skip,
};
use fabric_policy::work::Work;
use fabric_policy::{
    Definition, Overrides, ParameterType, PodContext, Policy, SourceErrors, check, choice_reads_writes,
    evaluated_policies,
};
use fabric_yaml::each_once;
use fabric_yaml::json::items;

use decision::{Decision, decide};
use providers::stamping_policy;

/// Policies of one provider, or of several between which the nodes choose.
#[derive(Debug, Default)]
pub struct PolicySet {
    policies: Vec<Policy>,
    /// The annotations that trigger a policy, and the escapes that may hide one in JSON; empty if a policy needs none.
    sought: Vec<Finder<'static>>,
    /// The names by which a container may have GPUs.
    gpus: Vec<Finder<'static>>,
    /// True if the nodes choose the provider for a pod.
    pub several_providers: bool,
    /// True if the choice of the policy may read fields that a policy writes.
    choice_may_change: bool,
}

/// An error in the policies, or in their combination.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Errors in them.
    #[error(transparent)]
    Source(#[from] SourceErrors),
    /// Two policies have the same name.
    #[error("two policies are called `{name}`, in {first} and {second}")]
    SameName { name: String, first: String, second: String },
    /// They have different providers.
    #[error(
        "policy `{first}` is for `{first_provider}` and `{second}` for `{second_provider}`; one provider at a time"
    )]
    DifferentProviders { first: String, first_provider: String, second: String, second_provider: String },
    /// A parameter has another type in another policy of the provider, so no value is valid for both.
    #[error(
        "the parameter `{name}` is {first}, and {second}; give it one type in all policies of the provider, or another name"
    )]
    ParameterTypes { name: String, first: String, second: String },
}

/// Checks the types of a policy's expressions, resolves it, and tries it on sample pods.
pub fn validated(
    definition: Definition,
    overrides: Overrides,
    loading: &Work,
) -> Result<Policy, SourceErrors> {
    let errors = check::errors(&definition);
    if !errors.is_empty() {
        return Err(SourceErrors::new(errors));
    }
    let policy = Policy::new(definition, overrides, loading)?;
    validate::policy(&policy, loading)?;
    Ok(policy)
}

/// Resolves a policy with other values, and tries it on one sample pod.
pub fn tried(definition: Definition, overrides: Overrides, loading: &Work) -> Result<(), SourceErrors> {
    validate::first(&Policy::new(definition, overrides, loading)?)
}

/// A policy with the values that the operator set for it.
pub type WithValues = (Definition, Overrides);

impl PolicySet {
    /// Resolves policies of one provider, each with the values that the operator set for it, and validates them.
    pub fn new(definitions: Vec<WithValues>) -> Result<Self, LoadError> {
        Self::load(definitions, false, |_| false, &Work::of_loading())
    }

    /// [`PolicySet::new`] for policies of several providers. The nodes that a pod can be scheduled to determine its
    /// provider.
    pub fn by_nodes(definitions: Vec<WithValues>) -> Result<Self, LoadError> {
        Self::load(definitions, true, |_| false, &Work::of_loading())
    }

    /// [`PolicySet::new`], or [`PolicySet::by_nodes`], for a caller that may stop the work, and that has policies that
    /// were tried before. Policies with their own values are not tried again.
    pub fn load(
        definitions: Vec<WithValues>,
        several_providers: bool,
        tried: impl Fn(&Definition) -> bool,
        loading: &Work,
    ) -> Result<Self, LoadError> {
        let providers: BTreeSet<&str> =
            definitions.iter().map(|(definition, _)| definition.provider.as_str()).collect();
        let several_providers = several_providers && providers.len() > 1;
        let mut set = Self { several_providers, ..Self::default() };
        let cache = evaluated_policies();
        let mut errors = Vec::new();
        for (definition, overrides) in definitions {
            if let Some(first) = set.policies.first().map(Policy::definition)
                && !several_providers
                && first.provider != definition.provider
            {
                return Err(LoadError::DifferentProviders {
                    first: first.name.clone(),
                    first_provider: first.provider.clone(),
                    second: definition.name.clone(),
                    second_provider: definition.provider.clone(),
                });
            }
            if let Some(same) = set.policies.iter().find(|policy| policy.name() == definition.name) {
                return Err(LoadError::SameName {
                    name: definition.name.clone(),
                    first: same.definition().file.clone(),
                    second: definition.file.clone(),
                });
            }
            set.check_types(&definition)?;
            let load = if overrides.is_empty() && tried(&definition) { Policy::new } else { validated };
            match load(definition, overrides, loading) {
                Ok(policy) => set.policies.push(policy.with_cache(&cache)),
                Err(found) => errors.extend(found),
            }
        }
        if errors.is_empty() { Ok(set.with_triggers()) } else { Err(SourceErrors::new(errors).into()) }
    }

    /// Fails for a parameter that has another type in a policy of the set.
    fn check_types(&self, second: &Definition) -> Result<(), LoadError> {
        let policies = self.policies.iter().map(Policy::definition);
        for first in policies.filter(|first| first.provider == second.provider) {
            for parameter in &second.parameters {
                let same = first.parameters.iter().find(|known| known.name == parameter.name);
                if let Some(known) = same.filter(|known| known.kind != parameter.kind) {
                    let declared = |Definition { name, file, .. }: &Definition, kind: ParameterType| {
                        format!("`{}` in the policy `{name}` ({file})", kind.name())
                    };
                    return Err(LoadError::ParameterTypes {
                        name: known.name.clone(),
                        first: declared(first, known.kind),
                        second: declared(second, parameter.kind),
                    });
                }
            }
        }
        Ok(())
    }

    fn with_triggers(mut self) -> Self {
        let policies: Vec<_> =
            self.policies.iter().map(|policy| (policy.definition(), policy.devices())).collect();
        self.choice_may_change = choice_reads_writes(&policies, &[STAMP, SKIPPED, NODES, CLAIMS]);
        let triggers = || self.policies.iter().map(|policy| &policy.definition().matcher.any_annotation);
        if triggers().all(|triggers| !triggers.is_empty()) {
            // A key is a qualified name, which has no character that JSON must escape.
            let keys: BTreeSet<&str> = triggers().flatten().map(|(key, _)| key.as_str()).collect();
            // An escape may hide any letter, such as Go's of `<`, `>` and `&`.
            let sought = keys.into_iter().chain(["\\u", "\\/"]);
            self.sought = sought.map(|text| Finder::new(text).into_owned()).collect();
        }
        let gpus: BTreeSet<&str> = self
            .policies
            .iter()
            .flat_map(|policy| policy.definition().gpus.resources.iter().map(String::as_str))
            .chain([DEVICE_CLASS, "\"claims\""])
            .collect();
        self.gpus = gpus.into_iter().map(|name| Finder::new(name).into_owned()).collect();
        self
    }

    /// Returns whether a container in this JSON text may have GPUs.
    pub(crate) fn may_name_gpus(&self, json: &str) -> bool {
        self.gpus.iter().any(|finder| finder.find(json.as_bytes()).is_some())
    }

    /// Returns whether a policy may match a pod in this JSON text. If not, none does.
    pub(crate) fn may_concern(&self, json: &str) -> bool {
        self.sought.is_empty() || self.sought.iter().any(|finder| finder.find(json.as_bytes()).is_some())
    }

    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// Returns whether a pod has the stamp that a policy of the set gives it.
    pub fn has_stamped(&self, pod: &Value) -> bool {
        let stamp = pod["metadata"]["annotations"][STAMP].as_str();
        stamp.is_some_and(|stamp| self.policies.iter().any(|policy| policy.stamp() == stamp))
    }

    /// The annotations that trigger a policy, each once, in the order of the policies.
    pub fn triggers(&self) -> Vec<&(String, String)> {
        each_once(self.policies.iter().flat_map(|policy| &policy.definition().matcher.any_annotation))
    }

    /// Marks a pod without GPUs as skipped if the guard may take it for one with GPUs.
    fn marked_if_guarded(&self, policies: &[&Policy], mutation: Mutation) -> Mutation {
        match mutation {
            Mutation {
                outcome: Outcome::Unchanged { pod, reason: reason @ Reason::NoGpuContainer { .. } },
                policy: name,
                warnings,
            } if self.may_have_gpus(&pod) => skip(pod, stamps(policies), reason, name, warnings),
            other => other,
        }
    }

    /// Returns whether a container has the resource of a GPU of any policy, a resource of a device class, or a claim.
    /// The guard checks no more than that.
    pub(crate) fn may_have_gpus(&self, pod: &Value) -> bool {
        let is_gpu = |(name, amount): (&String, &Value)| {
            let mut gpus = self.policies.iter().flat_map(|policy| &policy.definition().gpus.resources);
            name.starts_with(DEVICE_CLASS) || *amount != 0 && amount != "0" && gpus.any(|gpu| gpu == name)
        };
        CONTAINER_LISTS.iter().flat_map(|list| items(&pod["spec"], list)).any(|container| {
            let resources = &container["resources"];
            let claims = resources["claims"].as_array().is_some_and(|claims| !claims.is_empty());
            claims || resources["limits"].as_object().is_some_and(|limits| limits.iter().any(is_gpu))
        })
    }
}

/// The steps to look at a container before a policy is chosen.
const STEPS_OF_CONTAINER: usize = 20;

/// Injects a pod by the one policy that matches it.
///
/// The result is the same for the same arguments, and injecting the result again changes nothing.
pub fn mutate(policies: &PolicySet, pod: Value, context: &PodContext) -> Mutation {
    mutate_with(policies, pod, context, &mut None)
}

/// [`mutate`] with a record of what the engine evaluated and did.
pub fn mutate_traced(policies: &PolicySet, pod: Value, context: &PodContext) -> (Mutation, Trace) {
    let mut trace = Some(Box::default());
    let mutation = mutate_with(policies, pod, context, &mut trace);
    (mutation, trace.map(|trace| *trace).unwrap_or_default())
}

fn mutate_with(
    policies: &PolicySet,
    pod: Value,
    context: &PodContext,
    trace: &mut Option<Box<Trace>>,
) -> Mutation {
    let containers: usize = CONTAINER_LISTS.iter().map(|list| items(&pod["spec"], list).len()).sum();
    context.goes_on(containers * STEPS_OF_CONTAINER);
    let mutation = refuse_if_changed_again(policies, mutate_once(policies, pod, context, trace), context);
    // If the work ended early, the partial result must not be used.
    match context.work.as_ref().and_then(Work::ended) {
        None => mutation,
        Some(ended) => Mutation::new(Outcome::Refused { reason: ended.into() }, mutation.policy),
    }
}

/// Chooses the policy and injects the pod. What an earlier injection recorded decides only for its own policy: for any
/// other decision, the pod comes without it.
fn mutate_once(
    policies: &PolicySet,
    pod: Value,
    context: &PodContext,
    trace: &mut Option<Box<Trace>>,
) -> Mutation {
    if !context.goes_on(0) {
        // `mutate_with` has the reason. The pod may not be whole.
        return Mutation::new(Outcome::Refused { reason: Reason::Stopped }, None);
    }
    let annotations = &pod["metadata"]["annotations"];
    let has_any = |keys: &[&str]| keys.iter().any(|key| annotations[key].is_string());
    if !has_any(&[STAMP, NODES, CLAIMS]) {
        return mutate_by_records(policies, pod, context, trace, false);
    }
    let (has_records, writer) = (has_any(&[NODES, CLAIMS]), stamping_policy(&pod).map(str::to_owned));
    let whole = match copy(&pod, context) {
        Ok(pod) => pod,
        Err(reason) => return Mutation::new(Outcome::Refused { reason }, None),
    };
    let decided = mutate_by_records(policies, whole, context, trace, true);
    let is_skipped = matches!(decided.outcome, Outcome::Skipped { .. });
    let by_another = matches!(decided.outcome, Outcome::Mutated(_)) && decided.policy != writer;
    if !(is_skipped || has_records && by_another) {
        return decided;
    }
    *trace = trace.take().map(|_| Box::default());
    let mut without_records = mutate_by_records(policies, pod, context, trace, false);
    if is_skipped && matches!(without_records.outcome, Outcome::Skipped { .. }) {
        let is_of_records = |one: &Warning| {
            matches!(
                one.kind,
                WarningKind::InjectedBefore { .. } | WarningKind::AnnotationContradicted { .. }
            )
        };
        without_records.warnings.retain(|one| !is_of_records(one));
        without_records.warnings.extend(decided.warnings.into_iter().filter(is_of_records));
    }
    without_records
}

/// [`mutate_once`] with what an earlier injection recorded, unless the pod contradicts it, or without it.
fn mutate_by_records(
    policies: &PolicySet,
    mut pod: Value,
    context: &PodContext,
    trace: &mut Option<Box<Trace>>,
    with_records: bool,
) -> Mutation {
    let alone = |outcome, policy: Option<&Policy>| {
        Mutation::new(outcome, policy.map(|policy| policy.name().to_owned()))
    };
    let mut log = ChangeLog::new(context);
    log.trace = trace.take();
    policies.clear_contradicted(&mut pod, context, with_records, &mut log);
    let decision = decide(policies, &pod, context, &mut log);
    log.warnings.extend(warning_of_too_many(&pod, context));
    if !matches!(decision, Decision::Inject(..)) {
        log.undo(&mut pod);
    }
    let mutation = match decision {
        Decision::Inject(policy, analysis) => {
            policies.marked_if_guarded(&[policy], inject(policy, *analysis, pod, context, &mut log))
        }
        Decision::Skip(skipped, reason) => skip(pod, stamps(&skipped), reason, None, log.warnings),
        Decision::LeaveAlone(left, reason) => {
            policies.marked_if_guarded(&left, alone(Outcome::Unchanged { pod, reason }, None))
        }
        Decision::End(policy, reason) if reason.refuses() => alone(Outcome::Refused { reason }, policy),
        Decision::End(policy, reason) => alone(Outcome::Unchanged { pod, reason }, policy),
    };
    *trace = log.trace;
    mutation
}

fn stamps(policies: &[&Policy]) -> String {
    policies.iter().map(|policy| policy.stamp()).collect::<Vec<_>>().join(",")
}

/// Refuses a pod that another call would change again: the API server may call the webhook again for the current pod.
/// The engine has already checked the same policy, but another one may match the pod now.
fn refuse_if_changed_again(policies: &PolicySet, mut first: Mutation, context: &PodContext) -> Mutation {
    let Some(changed) = first.outcome.changed().filter(|changed| changed.operation_count() > 0) else {
        return first;
    };
    if !policies.choice_may_change {
        return first;
    }
    let again = match copy(&changed.pod, context) {
        Ok(pod) => mutate_once(policies, pod, context, &mut None),
        Err(reason) => return Mutation::new(Outcome::Refused { reason }, first.policy),
    };
    let is_same = match (&first.outcome, &again.outcome) {
        (Outcome::Mutated(_), Outcome::Unchanged { .. }) => again.policy == first.policy,
        (Outcome::Skipped { .. }, Outcome::Skipped { marked, .. }) => marked.operation_count() == 0,
        _ => false,
    };
    if is_same {
        first.warnings = each_once(first.warnings.into_iter().chain(again.warnings));
        return first;
    }
    let reason = match again.outcome {
        Outcome::Refused { reason } => reason,
        _ => Reason::ChangesMatch,
    };
    Mutation::new(Outcome::Refused { reason }, first.policy)
}
