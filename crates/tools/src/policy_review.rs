//! Reviews of ConfigMaps with policies and values, before the API server stores them.
//!
//! What is wrong in such an object alone is refused. What is wrong only together with others, such as a parameter that no
//! policy has, is a warning: Helm applies the objects of an upgrade one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Deserialize;
use serde::de::IgnoredAny;

use fabric_engine::admission::{Answer, BadReview, Mode, WorkloadReview};
use fabric_engine::policy_set::PolicySet;
use fabric_engine::registration::webhook_conditions;
use fabric_policy::source::UNKNOWN_BASE;
use fabric_policy::work::Work;
use fabric_policy::{Extendable, OtherKind, Severity, SourceError};

use super::helm_values::Values;
use super::policy_check::check;

/// The file with values, in the ConfigMap whose name ends so.
const VALUES_FILE: &str = "values.yaml";
const OF_VALUES: &str = "-values";
/// The most bytes of an object that is checked: those that a ConfigMap may have.
const MOST_BYTES: usize = 1 << 20;
/// The most files of an object that are checked.
const MOST_FILES: usize = 100;

/// The text of each file of a ConfigMap.
pub type Files = BTreeMap<String, String>;

/// The files of a ConfigMap, as they are and as they will be.
#[derive(Debug, Default)]
pub struct Change {
    /// True for values; false for policies.
    pub of_values: bool,
    pub old: Files,
    pub new: Files,
}

/// The server that reviews.
pub struct PolicyReviewer<'a> {
    pub version: &'a str,
    pub built_in: &'a [Extendable],
    /// Returns why the policies of the server do not load after a change.
    pub together: &'a dyn Fn(&Change) -> Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Review {
    request: Request,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Request {
    name: Option<String>,
    object: Option<ConfigMap>,
    old_object: Option<ConfigMap>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ConfigMap {
    metadata: Metadata,
    data: Option<Files>,
    binary_data: Option<Files>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    labels: Option<BTreeMap<String, String>>,
    deletion_timestamp: Option<String>,
}

/// The most findings in an answer. `policy check` shows all.
const MOST: usize = 10;

/// What is wrong in an object alone, and what else there is to say of it.
struct Findings {
    errors: Vec<SourceError>,
    warnings: Vec<String>,
}

impl PolicyReviewer<'_> {
    /// Answers a review of a ConfigMap. `work` counts what it takes.
    pub fn answer(&self, body: &[u8], work: &Work) -> Result<Answer, BadReview> {
        let review = WorkloadReview::<IgnoredAny>::read(body)?;
        let Review { request } = serde_json::from_slice(body)?;
        let Request { name, object, old_object } = request;
        let (name, object) = (name.unwrap_or_default(), object.unwrap_or_default());
        let old = old_object.unwrap_or_default().data.unwrap_or_default();
        let ConfigMap { metadata, data, binary_data } = object;
        let new = data.unwrap_or_default();
        let of_values = name.ends_with(OF_VALUES) && new.contains_key(VALUES_FILE);
        let change = Change { of_values, old, new };
        // What is there already may be labelled, and has to go.
        if metadata.deletion_timestamp.is_some() || !change.old.is_empty() && change.old == change.new {
            return Ok(review.answer(None, Vec::new(), Vec::new(), Mode::Inject));
        }
        if change.new.values().map(String::len).sum::<usize>() > MOST_BYTES || change.new.len() > MOST_FILES {
            let why = format!("since it has more than {MOST_FILES} files or {MOST_BYTES} bytes");
            return unchecked(body, "cost", &why);
        }
        let found = catch_unwind(AssertUnwindSafe(|| self.findings(&change, &metadata, work)));
        match found {
            Err(_) => unchecked(body, "panic", "because of a bug; see the log of the server"),
            Ok(Findings { errors, .. }) if !errors.is_empty() => {
                let codes: BTreeSet<&str> = errors.iter().map(|error| error.diagnostic.code).collect();
                Ok(review.refuse(&lines(&errors), codes.into_iter().map(str::to_owned).collect()))
            }
            Ok(_) if work.ended().is_some() => unchecked(body, "cost", "since that takes too long"),
            Ok(Findings { mut warnings, .. }) => {
                let binary =
                    binary_data.unwrap_or_default().into_keys().filter(|file| is_text_of_policy(file));
                warnings
                    .extend(binary.map(|file| format!("`{file}` is no text in UTF-8, and was not checked")));
                Ok(review.answer(None, warnings, Vec::new(), Mode::Inject))
            }
        }
    }

    fn findings(&self, change: &Change, metadata: &Metadata, work: &Work) -> Findings {
        let found = self.alone(change, work);
        let (errors, rest): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|error| error.diagnostic.severity == Severity::Error);
        let release = metadata.labels.as_ref().and_then(|labels| labels.get("app.kubernetes.io/version"));
        let is_other =
            |release: &&String| !release.is_empty() && *release != self.version && !errors.is_empty();
        if let Some(release) = release.filter(is_other) {
            let other = format!("of release {release}, which this server of {} may not know", self.version);
            let warnings = std::iter::once(other).chain(lines(&errors)).collect();
            return Findings { errors: Vec::new(), warnings };
        }
        let mut warnings = lines(&rest);
        if errors.is_empty() && work.ended().is_none() {
            warnings.extend((self.together)(change));
        }
        Findings { errors, warnings }
    }

    /// What is wrong in these files. A base may be in another ConfigMap.
    fn alone(&self, change: &Change, work: &Work) -> Vec<SourceError> {
        if change.of_values {
            let values = change.new.get(VALUES_FILE);
            return values.and_then(|text| Values::read(VALUES_FILE, text).err()).into_iter().collect();
        }
        let policies: Vec<_> = change.policies().map(|(file, text)| (file.clone(), text.clone())).collect();
        let mut found = check(&policies, self.built_in, work);
        found.retain(|error| error.diagnostic.code != UNKNOWN_BASE);
        found
    }
}

impl Change {
    /// The files that a server takes for policies.
    pub fn policies(&self) -> impl Iterator<Item = (&String, &String)> {
        self.new.iter().filter(|(file, text)| !self.of_values && is_policy(file, text))
    }

    /// The text of the values, if it is about them.
    pub fn values(&self) -> Option<&String> {
        self.new.get(VALUES_FILE).filter(|_| self.of_values)
    }
}

/// The answer to a review that was not evaluated.
pub fn unchecked(body: &[u8], reason: &'static str, why: &str) -> Result<Answer, BadReview> {
    let warning = format!("the policies were not checked, {why}; run `fabric-injector policy check`");
    let review = WorkloadReview::<IgnoredAny>::read(body)?;
    Ok(review.answer(Some(reason), vec![warning], Vec::new(), Mode::Inject))
}

/// Returns whether a server takes a file of a folder for a policy.
pub fn is_policy(file: &str, text: &str) -> bool {
    is_text_of_policy(file) && OtherKind::detect(text).is_none()
}

/// Returns whether a file may have a policy, by its name.
fn is_text_of_policy(file: &str) -> bool {
    let ending = file.rsplit_once('.').map(|(_, ending)| ending);
    !file.starts_with('.') && matches!(ending, Some("yaml" | "yml"))
}

/// A line for each of the first findings, and one that counts the others.
pub fn lines(found: &[SourceError]) -> Vec<String> {
    let line = |SourceError { file, diagnostic, .. }: &SourceError| {
        let hint = diagnostic.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let (line, column) = (diagnostic.span.line.max(1), diagnostic.span.column.max(1));
        let file = file.rsplit('/').next().unwrap_or_default();
        format!("{file}:{line}:{column}: {}{hint}", diagnostic.message)
    };
    let others = found.len().saturating_sub(MOST);
    let rest = (others > 0).then(|| format!("and {others} more, which `fabric-injector policy check` shows"));
    found.iter().take(MOST).map(line).chain(rest).collect()
}

/// That pods which only the changed policies match are not sent to servers, unless this is a part of the upgrade that
/// registers their conditions.
pub fn unregistered(current: &PolicySet, changed: &PolicySet) -> Vec<String> {
    if webhook_conditions(current) == webhook_conditions(changed) {
        return Vec::new();
    }
    let known: BTreeSet<_> = current.triggers().into_iter().collect();
    let new = changed.triggers().into_iter().find(|trigger| !known.contains(trigger));
    let which = new.map_or_else(
        || "pods that only these policies match".to_owned(),
        |(key, value)| format!("pods with `{key}: \"{value}\"`"),
    );
    vec![format!(
        "the conditions of the webhook are not those of these policies yet: {which} are not injected before \
         `helm upgrade`, or the output of `fabric-injector manifests`, registers them"
    )]
}
