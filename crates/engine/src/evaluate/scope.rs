//! The values that expressions read. Each is computed on first use, because the expressions for most pods read few of
//! them.

use std::sync::OnceLock;

use serde_json::Value;

use crate::analysis::{Container, PodAnalysis, requests};
use crate::record::{ConditionFact, Reason, ScopeOf, Trace, VariableIn, add_reads, evaluation_failed};
use fabric_policy::expression::{Bindings, Borrowed, Computed, VariableResolver};
use fabric_policy::interpolation::{BUILT_IN, EvaluationError, Interpolation, Phase};
use fabric_policy::overlay::{Addition, Evaluation, Section, Write, is_zero, writes};
use fabric_policy::work::Work;
use fabric_policy::{Rule, Variable};

/// The values that a scope adds to the one around it.
enum Source<'a> {
    /// The pod before anything is injected.
    Pod,
    /// One of its containers.
    Container(&'a Container),
    /// The requests of the pod after its containers were injected.
    Injected(Box<Value>),
}

/// One scope of a pod, inside of another or of the policy's fixed values.
pub(crate) struct Scope<'a> {
    analysis: &'a PodAnalysis,
    source: Source<'a>,
    outer: Option<&'a Scope<'a>>,
    /// By name.
    variables: &'a [Variable],
    /// Made when the first of them is read: most scopes are those of containers for which no rule computes anything.
    values: OnceLock<Box<Values>>,
    /// The first variable that could not be evaluated. A lookup cannot fail, so it is kept here.
    failure: OnceLock<Box<(String, EvaluationError)>>,
}

/// The values of a scope, each computed when it is read.
struct Values {
    variables: Vec<OnceLock<Option<Computed>>>,
    built_in: [OnceLock<Computed>; BUILT_IN.len()],
}

impl<'a> Scope<'a> {
    /// The pod before anything is injected.
    pub(crate) fn of_pod(analysis: &'a PodAnalysis) -> Self {
        Self::new(analysis, Source::Pod, &analysis.policy.evaluated.pod_variables, None)
    }

    /// One of the pod's containers.
    pub(crate) fn of_container(&'a self, container: &'a Container) -> Self {
        let variables = &self.analysis.policy.evaluated.container_variables;
        Self::new(self.analysis, Source::Container(container), variables, Some(self))
    }

    /// The pod after its containers were injected.
    pub(crate) fn of_injected(&'a self, pod: &Value) -> Self {
        let policy = &self.analysis.policy;
        let requests = if policy.evaluated.reads("podRequests") {
            self.analysis.work.iter().for_each(Work::count_input);
            requests(pod)
        } else {
            Value::Null
        };
        let source = Source::Injected(Box::new(requests));
        Self::new(self.analysis, source, &policy.evaluated.injected_variables, Some(self))
    }

    fn new(
        analysis: &'a PodAnalysis,
        source: Source<'a>,
        variables: &'a [Variable],
        outer: Option<&'a Self>,
    ) -> Self {
        Self { analysis, source, outer, variables, values: OnceLock::new(), failure: OnceLock::new() }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.source {
            Source::Pod => Phase::Pod,
            Source::Container(_) => Phase::Container,
            Source::Injected(_) => Phase::Injected,
        }
    }

    /// The part of the pod that it is about.
    pub(crate) fn kind(&self) -> ScopeOf {
        match self.source {
            Source::Pod => ScopeOf::Pod,
            Source::Container(container) => {
                ScopeOf::Container { list: container.list, index: container.index }
            }
            Source::Injected(_) => ScopeOf::Injected,
        }
    }

    /// A condition, and the values that it reads. What the parameters decide follows from them alone: other values need
    /// not be known.
    pub(super) fn fact(&self, condition: &Interpolation) -> ConditionFact {
        let fixed = &self.analysis.policy.evaluated.bindings;
        let holds = condition.is_true(fixed);
        if holds.is_ok() {
            return ConditionFact::new(condition, &holds, fixed);
        }
        let bindings = self.bindings();
        ConditionFact::new(condition, &condition.is_true(&bindings), &bindings)
    }

    /// Records the values of the variables of this scope that the policy reads with its parameters, and the values that
    /// they and the checks read. `container` is the name of the container whose scope it is.
    pub(super) fn record(&self, variables: &[Variable], container: Option<&str>, trace: &mut Trace) {
        let bindings = self.bindings();
        trace.read(self.kind(), &bindings);
        let is_known =
            |one: &&Variable| one.phase == Phase::Fixed || self.analysis.policy.evaluated.reads(&one.name);
        let of_scope = |one: &&Variable| one.phase.max(Phase::Pod) == self.phase();
        for Variable { name, value, .. } in variables.iter().filter(of_scope).filter(is_known) {
            let mut reads = Vec::new();
            value.texts(&mut |text| add_reads(text, &bindings, &mut reads));
            let value = value.evaluate(&bindings).map_err(|error| error.message);
            let (name, container) = (name.clone(), container.map(str::to_owned));
            trace.variables.push(VariableIn { name, container, value, reads });
        }
    }

    /// Bindings over the fixed values of the policy and this scope.
    pub(crate) fn bindings<'s>(&'s self) -> Bindings<'s, 's> {
        let mut bindings: Bindings<'s, 's> = self.analysis.policy.evaluated.bindings.child();
        bindings.resolve_by(self, self.analysis.work.clone());
        bindings
    }

    /// Forgets the values, which are computed again if they are read again.
    pub(crate) fn forget(&mut self) {
        self.values.take();
    }

    /// The value of a name, in this scope or around it.
    fn value(&self, name: &str) -> Option<&Computed> {
        if let Ok(at) = self.variables.binary_search_by(|variable| variable.name.as_str().cmp(name)) {
            return self.variable(at);
        }
        self.built_in(name).or_else(|| self.outer.and_then(|outer| outer.value(name)))
    }

    fn variable(&self, at: usize) -> Option<&Computed> {
        let Variable { name, value, .. } = &self.variables[at];
        let compute = || match value.evaluate(&self.bindings()) {
            Ok(value) => Some(self.computed(&value)),
            Err(error) => {
                let _ = self.failure.set(Box::new((name.clone(), error)));
                None
            }
        };
        self.values().variables[at].get_or_init(compute).as_ref()
    }

    /// The value in the form that expressions read; a part of it if the work ends.
    fn computed(&self, value: &Value) -> Computed {
        Computed::new(value, self.analysis.work.as_ref())
    }

    fn values(&self) -> &Values {
        self.values.get_or_init(|| {
            let variables = self.variables.iter().map(|_| OnceLock::new()).collect();
            Box::new(Values { variables, built_in: std::array::from_fn(|_| OnceLock::new()) })
        })
    }

    fn built_in(&self, name: &str) -> Option<&Computed> {
        let phase = self.phase();
        let at = BUILT_IN.iter().position(|known| known.phase == phase && known.name == name)?;
        Some(self.values().built_in[at].get_or_init(|| self.value_of(name)))
    }

    fn value_of(&self, name: &str) -> Computed {
        let PodAnalysis { pod, namespace, host_network, total_gpus, own_devices, .. } = self.analysis;
        match (&self.source, name) {
            (Source::Pod, "pod") => self.computed(pod),
            (Source::Pod, "podNamespace") => self.computed(&Value::from(namespace.as_str())),
            (Source::Pod, "hostNetwork") => Computed::bool(*host_network),
            (Source::Pod, "totalGpus") => Computed::int(*total_gpus),
            (Source::Pod, "claimNames") => self.computed(&self.analysis.claim_names),
            (Source::Pod, "claimClasses") => self.computed(&self.analysis.claim_classes),
            (Source::Pod, "ownDevices") => Computed::bool(!own_devices.is_empty()),
            (Source::Pod, "launcher") => Computed::bool(self.analysis.is_launcher),
            (Source::Container(container), "ranks") => Computed::bool(self.is_rank(container)),
            (Source::Container(container), "gpus") => Computed::int(container.gpus),
            (Source::Container(container), "container") => self.computed(&container.read),
            (Source::Container(container), "containerEnv") => self.computed(&container.env),
            (Source::Container(container), "gpuCounts") => self.computed(&container.counts),
            (Source::Container(container), "hasDevice") => Computed::bool(self.has_device(container)),
            (Source::Injected(requests), "podRequests") => self.computed(requests),
            _ => self.computed(&Value::Null),
        }
    }

    /// Returns whether a container is a rank of a job, or the launcher, which hands variables on to the ranks.
    pub(super) fn is_rank(&self, container: &Container) -> bool {
        container.gpus > 0 || self.analysis.is_launcher
    }

    /// Returns whether a container requests a device of the fabric, or gets one.
    fn has_device(&self, container: &Container) -> bool {
        let analysis = self.analysis;
        let bindings = self.bindings();
        // An expression without a value makes the rule itself refuse the pod.
        let gets = |rule: &Rule| {
            let Some(device) = rule.device.filter(|_| analysis.may_apply(rule)) else { return false };
            (!device.to_network || !analysis.host_network)
                && rule.when.as_ref().is_none_or(|when| when.is_true(&bindings) == Ok(true))
                && adds_any(rule, &bindings)
        };
        container.has_device || container.gpus > 0 && analysis.policy.evaluated.rules.iter().any(gets)
    }

    /// The error behind an expression that failed: that of a variable it reads, if one failed first.
    pub(crate) fn explain(&self, place: &str, error: EvaluationError) -> Reason {
        let mut scope = Some(self);
        while let Some(present) = scope {
            if let Some((name, error)) = present.failure.get().map(Box::as_ref) {
                return evaluation_failed(&format!("the variable `{name}`"), error.clone());
            }
            scope = present.outer;
        }
        evaluation_failed(place, error)
    }
}

/// Returns whether an entry of `devices.add` adds a nonzero amount of a resource, or a claim.
fn adds_any(rule: &Rule, bindings: &Bindings<'_, '_>) -> bool {
    let has_resources = rule.device.is_some_and(|device| device.has_resources);
    let section = if has_resources { Section::Selected } else { Section::Claims };
    let mut additions = rule.additions_to(&section).peekable();
    let is_device = |write: &Write<'_>| {
        let amount = write.value.as_value().filter(|_| write.is_amount() && write.names().next().is_some());
        amount.is_some_and(|amount| !is_zero(amount))
            || write.value.literal("resourceClaimTemplateName").is_some()
    };
    let adds = |Addition { section, tree, .. }: &Addition| {
        let evaluated = Evaluation::new(bindings, false).object(tree, section.object());
        let tree = evaluated.ok().flatten().unwrap_or_default();
        writes(&tree, section.object()).iter().any(is_device)
    };
    additions.peek().is_none() || additions.any(adds)
}

impl VariableResolver for Scope<'_> {
    fn resolve<'b>(&'b self, name: &str) -> Option<Borrowed<'b>> {
        self.value(name).map(Computed::borrowed)
    }
}
