//! What an evaluation takes, and how it grows.

use std::fs;
use std::sync::Arc;

use fabric_allocator::held;
use fabric_engine::admission::Mode;
use fabric_engine::policy_set::PolicySet;
use fabric_policy::PodContext;
use fabric_policy::nodes::Nodes;
use fabric_policy::objects::KnownObjects;
use fabric_policy::work::{Ended, Work};
use fabric_tools::lint;
use fabric_workloads::manifest::{Document, RawDocument, Wanted, inject};
use serde_json::{Value, json};

use crate::cost::{review, reviewer};

/// The largest exponent with which steps and memory grow.
const MOST: f64 = 1.1;
/// The same for the time of the processor, which other processes and caches change.
const MOST_OF_TIME: f64 = 1.4;
/// What is less than this does not count: steps, bytes, nanoseconds.
const LEAST: [f64; 3] = [300_000.0, 2_000_000.0, 60_000_000.0];
/// The steps after an evaluation is over, besides those that one call counts at once.
const MOST_AFTER: u64 = 100_000;

/// What an evaluation reads.
#[derive(Clone, Default)]
pub(super) struct Input {
    pub(super) pod: Value,
    /// Nodes and `ResourceSlices`, and the objects about claims.
    pub(super) nodes: Vec<Value>,
    pub(super) claims: Vec<Value>,
}

impl Input {
    fn bytes(&self) -> usize {
        let all = [&self.pod].into_iter().chain(&self.nodes).chain(&self.claims);
        all.map(|value| value.to_string().len()).sum()
    }

    /// The context without work. Each has its own nodes, so that no result of another evaluation is known.
    fn context(&self) -> PodContext {
        let nodes = (!self.nodes.is_empty())
            .then(|| Arc::new(Nodes::read(&json!({"kind": "List", "items": self.nodes})).unwrap()));
        let objects = json!({"kind": "List", "items": self.claims});
        let objects: KnownObjects =
            fabric_policy::objects::NamedObject::read_all(&objects, "team").into_iter().collect();
        PodContext {
            nodes,
            objects: Some(objects.into()),
            namespace: Some("team".to_owned()),
            ..PodContext::default()
        }
    }
}

/// The way on which a pod comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The pod of a review, as a thread evaluates it.
    Review,
    /// The Job of a review for advice; `lint` does the same.
    Advice,
    /// A Job in a manifest.
    Manifest,
}

pub(super) const WAYS: [Way; 3] = [Way::Review, Way::Advice, Way::Manifest];

fn job(pod: &Value) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": pod}})
}

/// What an evaluation took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    bytes: usize,
    steps: u64,
    /// Those that no earlier evaluation has done.
    done: u64,
    memory: u64,
    nanoseconds: u64,
    ended: Option<Ended>,
}

/// The time of the processor that this thread has had.
fn nanoseconds() -> u64 {
    let all = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    all.split(' ').next().unwrap().parse().unwrap()
}

/// Evaluates an input; `most` is a limit on the steps.
pub(super) fn take(policies: &PolicySet, input: &Input, way: Way, most: Option<u64>) -> Taken {
    let text = match way {
        Way::Review => review(&input.pod),
        // The object alone decides about the advice.
        Way::Advice => review(&job(&input.pod)),
        Way::Manifest => job(&input.pod).to_string(),
    };
    let context = input.context();
    let begun = nanoseconds();
    let work = Work::of_input(text.len()).measured_by(held);
    let work = most.map_or(work.clone(), |most| work.with_most_steps(most));
    let context = PodContext { work: Some(work.clone()), ..context };
    match way {
        Way::Review => {
            drop(reviewer(policies).answer(text.as_bytes(), context.clone()).unwrap());
        }
        Way::Advice => drop(lint::answer(policies, Mode::Inject, text.as_bytes(), &context).unwrap()),
        Way::Manifest => {
            let piece = RawDocument::new(text.clone().into_bytes());
            let mut document = Document::read(&piece).unwrap();
            let wanted = Wanted {
                patches: true,
                summary: true,
                findings: true,
                nodes: context.nodes.as_ref(),
                objects: context.objects.as_ref(),
                work: Some(&work),
                checks: Some(&work),
                ..Wanted::default()
            };
            drop(inject(policies, &mut document, &piece, wanted).unwrap());
        }
    }
    let nanoseconds = nanoseconds() - begun;
    let (steps, memory) = (work.with_known(), work.memory());
    Taken { bytes: input.bytes(), steps, done: work.done(), memory, nanoseconds, ended: work.ended() }
}

/// One of the figures.
type Measure = fn(&Taken) -> u64;

/// What grows too fast from the second to the third of three inputs, without what the first one takes.
fn too_fast([least, less, more]: [Taken; 3]) -> Option<String> {
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let growth = |of: Measure| [&less, &more].map(|one| of(one).saturating_sub(of(&least)) as f64);
    let exponent = |[less, more]: [f64; 2], floor: f64| (more / less.max(floor / 10.0)).ln();
    let bytes = exponent(growth(|taken| taken.bytes as u64), 1.0).max(0.1);
    let measures: [(&str, Measure, f64); 3] = [
        ("steps", |taken| taken.steps, MOST),
        ("memory", |taken| taken.memory, MOST),
        ("time", |taken| taken.nanoseconds, MOST_OF_TIME),
    ];
    let found = measures.iter().zip(LEAST).filter_map(|((what, of, most), floor)| {
        let grown = growth(*of);
        let exponent = exponent(grown, floor) / bytes;
        (grown[1] > floor && exponent > *most).then(|| {
            format!(
                "{what} grow with {exponent:.2}: {:.0} and {:.0} for {} and {} bytes",
                grown[0], grown[1], less.bytes, more.bytes
            )
        })
    });
    let found: Vec<String> = found.collect();
    (!found.is_empty()).then(|| found.join("; "))
}

/// What is wrong with the growth of an input, which `write` writes in a size.
pub(super) fn problem(
    policies: &PolicySet,
    way: Way,
    sizes: [usize; 3],
    write: &dyn Fn(usize) -> Input,
) -> Option<String> {
    let inputs = sizes.map(write);
    // Of several runs, since others use the processor, too.
    let mut found = None;
    for _ in 0..3 {
        let taken = inputs.each_ref().map(|input| take(policies, input, way, None));
        if let Some(ended) = taken[2].ended {
            return Some(format!("ends with {ended:?} at {} bytes", taken[2].bytes));
        }
        found = too_fast(taken);
        if found.as_ref().is_none_or(|found| !found.starts_with("time")) {
            break;
        }
    }
    let last = &inputs[2];
    found.or_else(|| goes_on_after_its_limit(policies, last, way))
}

/// An evaluation that is over stops.
fn goes_on_after_its_limit(policies: &PolicySet, input: &Input, way: Way) -> Option<String> {
    let all = take(policies, input, way, None);
    let most = all.done / 2;
    let taken = take(policies, input, way, Some(most));
    let at_once = 15 * u64::try_from(all.bytes).unwrap();
    (taken.done > most + MOST_AFTER + at_once)
        .then(|| format!("takes {} of {} steps after a limit of {most}", taken.done - most, all.done))
}
