//! The policies and values that an operator names, and the resulting set of policies.
//!
//! Reading and compiling are separate steps: a server reads files often, and compiles them only when they change.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::builtin;
use crate::files::{Allowed, read_bounded, with_endings};
use fabric_allocator::held;
use fabric_engine::policy_set::{PolicySet, WithValues};
use fabric_policy::source::closest;
use fabric_policy::work::Work;
use fabric_policy::{Definition, OtherKind};
use fabric_tools::helm_values::Values;
use fabric_tools::policy_check::load;
use fabric_tools::policy_list::listed;
use fabric_tools::policy_review::{Change, is_policy};

const POLICY: Allowed = Allowed { what: "policy", mebibytes: 4, pipes: false };
const VALUES: Allowed = Allowed { what: "values file", mebibytes: 4, pipes: false };

/// The policies and values that an operator names.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct PolicySources {
    /// A built-in policy, a policy file, or a folder of them; may be given several times
    #[arg(
        long = "policy",
        value_name = "NAME|PATH|DIR",
        value_delimiter = ',',
        env = "FABRIC_INJECTOR_POLICY"
    )]
    pub policies: Vec<String>,
    /// A file with a `multinodeNetworking:` block, such as a Helm values file as it is
    #[arg(long, value_name = "FILE", env = "FABRIC_INJECTOR_VALUES")]
    pub values: Option<String>,
    /// A parameter of the policies in use that have it; wins over the values file
    #[arg(long = "set", value_name = "KEY=VALUE", env = "FABRIC_INJECTOR_SET")]
    pub sets: Vec<String>,
    /// Use all built-in policies if none is named and no provider enabled: the nodes choose the provider of a pod.
    #[arg(skip)]
    pub by_nodes: bool,
}

/// The policies and values as they were read, before parsing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawPolicies {
    /// The name and text of each policy file.
    policies: Vec<(String, String)>,
    /// The path and text of the values file.
    values: Option<(String, String)>,
    sets: Vec<String>,
    by_nodes: bool,
    /// Remarks about files in folders that are not policies.
    pub(crate) notes: Vec<String>,
}

/// Policies that are compiled, and the sources of their values.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) policies: Arc<PolicySet>,
    pub(crate) values: Option<Values>,
    /// The options `--set` by the name of their parameter.
    pub(crate) sets: BTreeMap<String, String>,
    /// Remarks about files in folders that are not policies.
    pub(crate) notes: Vec<String>,
}

impl PolicySources {
    /// Returns whether they name no policy and no provider.
    pub(crate) fn are_empty(&self) -> bool {
        self.policies.is_empty() && self.values.is_none()
    }

    /// Reads all files. None may be a pipe, because they are read again later.
    pub(crate) fn read(&self) -> anyhow::Result<RawPolicies> {
        self.read_files(false)
    }

    /// Reads all files, which may be pipes.
    pub(crate) fn read_once(&self) -> anyhow::Result<RawPolicies> {
        self.read_files(true)
    }

    fn read_files(&self, pipes: bool) -> anyhow::Result<RawPolicies> {
        let mut policies = Vec::new();
        let mut others = Vec::new();
        for name in &self.policies {
            let texts = each_policy_text(name, pipes, &mut others)?;
            for (file, text) in texts {
                policies.push((file, text?));
            }
        }
        let read = |path: &String| anyhow::Ok((path.clone(), read_file(path, Allowed { pipes, ..VALUES })?));
        let values = self.values.as_ref().map(read).transpose()?;
        let notes = notes("used", &others);
        Ok(RawPolicies { policies, values, sets: self.sets.clone(), by_nodes: self.by_nodes, notes })
    }

    /// [`Self::load`] with the values file and the options, for messages about the source of a value.
    pub(crate) fn load_with_origins(&self) -> anyhow::Result<Loaded> {
        let raw = self.read_once()?;
        let policies = raw.compile_once()?;
        let values = raw.values.as_ref().map(|(path, text)| Values::read(path, text)).transpose()?;
        let provider = policies.policies().first().map(|policy| policy.definition().provider.as_str());
        let name = |key: &str| without_provider(key, provider.unwrap_or_default()).to_owned();
        let sets =
            raw.sets.iter().filter_map(|set| Some((name(set.split_once('=')?.0), set.clone()))).collect();
        Ok(Loaded { policies, values, sets, notes: raw.notes })
    }

    /// Reads all files, which may be pipes, and compiles the policies.
    pub fn load(&self) -> anyhow::Result<PolicySet> {
        self.read_once()?.compile()
    }
}

impl RawPolicies {
    /// The policies and values of a server: built-in policies by their names, the files of a folder, and the values.
    pub(crate) fn of_server(
        by_nodes: bool,
        built_in: Vec<String>,
        folder: impl IntoIterator<Item = (String, String)>,
        values: Option<(String, String)>,
    ) -> anyhow::Result<Self> {
        let mut raw = PolicySources { policies: built_in, by_nodes, ..PolicySources::default() }.read()?;
        raw.policies.extend(folder.into_iter().filter(|(name, text)| is_policy(name, text)));
        Ok(Self { values, ..raw })
    }

    /// These with the files of a ConfigMap as it will be, in place of those of the same ConfigMap as it is. Its files are
    /// mounted, and have absolute paths.
    pub(crate) fn changed(mut self, change: &Change) -> Self {
        let is_replaced = |path: &str| {
            let name = Path::new(path).file_name().and_then(OsStr::to_str).unwrap_or_default();
            let is_of_both = change.old.contains_key(name) || change.new.contains_key(name);
            Path::new(path).is_absolute() && !change.of_values && is_of_both
        };
        self.policies.retain(|(path, _)| !is_replaced(path));
        self.policies.extend(change.policies().map(|(name, text)| (name.clone(), text.clone())));
        if let Some(((_, text), new)) = self.values.as_mut().zip(change.values()) {
            text.clone_from(new);
        }
        self
    }

    /// Compiles all policies.
    pub(crate) fn compile(&self) -> anyhow::Result<PolicySet> {
        self.compile_within(&Work::of_loading())
    }

    /// Compiles all policies, unless they are those of the last command: a page runs one for each change of a manifest.
    pub(crate) fn compile_once(&self) -> anyhow::Result<Arc<PolicySet>> {
        static LAST: Mutex<Option<(RawPolicies, Arc<PolicySet>)>> = Mutex::new(None);
        let mut last = LAST.lock();
        if let Some((raw, policies)) = &*last
            && raw == self
        {
            return Ok(Arc::clone(policies));
        }
        let policies = Arc::new(self.compile()?);
        *last = Some((self.clone(), Arc::clone(&policies)));
        Ok(policies)
    }

    /// Compiles all policies, unless this work is stopped.
    pub(crate) fn compile_within(&self, loading: &Work) -> anyhow::Result<PolicySet> {
        let loading = loading.measured_by(held);
        Ok(PolicySet::load(self.chosen()?, self.by_nodes, builtin::is_built_in, &loading)?)
    }

    /// The `multinodeNetworking` block with the values file and `--set` combined. Of several providers, none is enabled.
    pub(crate) fn settings(&self) -> anyhow::Result<Value> {
        let mut block = Map::new();
        let chosen = self.chosen()?;
        let is_one = chosen.windows(2).all(|pair| pair[0].0.provider == pair[1].0.provider);
        let base = if is_one { json!({"enabled": true}) } else { json!({}) };
        for (definition, overrides) in chosen.into_iter().filter(|(_, own)| is_one || !own.is_empty()) {
            let settings = block.entry(definition.provider).or_insert_with(|| base.clone());
            if let Some(settings) = settings.as_object_mut() {
                settings.extend(overrides.iter().map(|(name, setting)| (name.clone(), setting.to_json())));
            }
        }
        Ok(Value::Object(block))
    }

    /// The policies in use, each with the parameters that the operator sets.
    fn chosen(&self) -> anyhow::Result<Vec<WithValues>> {
        let values = self.values.as_ref().map(|(path, text)| Values::read(path, text)).transpose()?;
        let enabled = values.as_ref().map(Values::enabled).transpose()?.flatten().map(str::to_owned);
        let mut in_use = load(&self.policies, builtin::files())?;
        if let Some(values) = &values {
            check_values(values, &in_use, enabled.as_deref())?;
        }
        if in_use.is_empty() {
            ensure!(
                self.by_nodes || enabled.is_some(),
                "no policy is named; use `--policy NAME`, or `--values FILE` with a provider enabled\n{}",
                available()
            );
            in_use = builtin::definitions()?;
            in_use.retain(|one| enabled.as_ref().is_none_or(|enabled| one.provider == *enabled));
        }
        let mut with_values = Vec::new();
        for definition in in_use {
            let overrides = match &values {
                Some(values) => values.overrides(&definition)?,
                None => BTreeMap::new(),
            };
            with_values.push((definition, overrides));
        }
        self.sets.iter().try_for_each(|set| apply_set(set, &mut with_values))?;
        Ok(with_values)
    }
}

/// Sets a parameter of every policy that has it.
fn apply_set(set: &str, policies: &mut [WithValues]) -> anyhow::Result<()> {
    let Some((key, text)) = set.split_once('=') else {
        bail!("`--set {set}` has no `=`; write `--set KEY=VALUE`");
    };
    let mut known = false;
    for (definition, overrides) in policies.iter_mut() {
        let name = without_provider(key, &definition.provider);
        let Some(parameter) = definition.parameters.iter().find(|parameter| parameter.name == name) else {
            continue;
        };
        let value = parameter.parse(text).map_err(|problem| anyhow::anyhow!("`--set {set}`: {problem}"))?;
        overrides.insert(name.to_owned(), value.into());
        known = true;
    }
    if known {
        return Ok(());
    }
    let definitions: Vec<&Definition> = policies.iter().map(|(definition, _)| definition).collect();
    let name = definitions.first().map_or(key, |definition| without_provider(key, &definition.provider));
    let names: Vec<String> = definitions.iter().map(|definition| format!("`{}`", definition.name)).collect();
    let parameters = definitions.iter().flat_map(|definition| &definition.parameters);
    let parameters: BTreeSet<&str> = parameters.map(|parameter| parameter.name.as_str()).collect();
    let hint = match closest(name, parameters.iter().copied()) {
        Some(closest) => format!("did you mean `{closest}`?"),
        None if parameters.is_empty() => "leave `--set` out: there are no parameters".to_owned(),
        None => format!("known here: {}", parameters.into_iter().collect::<Vec<_>>().join(", ")),
    };
    match names.as_slice() {
        [one] => bail!("policy {one} has no parameter `{name}`\nhint: {hint}"),
        _ => bail!("none of the policies {} has a parameter `{name}`\nhint: {hint}", names.join(", ")),
    }
}

/// The name of a parameter, which may have the path of its provider's block before it.
fn without_provider<'k>(key: &'k str, provider: &str) -> &'k str {
    let prefixes = [format!("multinodeNetworking.{provider}."), format!("{provider}.")];
    prefixes.iter().find_map(|prefix| key.strip_prefix(prefix.as_str())).unwrap_or(key)
}

/// The facts about each built-in policy.
pub(crate) fn facts_of_built_in() -> anyhow::Result<Vec<Value>> {
    Ok(builtin::definitions()?.iter().map(listed).collect())
}

/// One line for each built-in policy, with its provider and description.
pub(crate) fn listing() -> anyhow::Result<String> {
    let definitions = builtin::definitions()?;
    let longest =
        |text: fn(&Definition) -> &str| definitions.iter().map(|one| text(one).len()).max().unwrap_or(0);
    let (names, providers) = (longest(|one| &one.name), longest(|one| &one.provider));
    let mut lines = String::new();
    for Definition { name, provider, description, extends, .. } in &definitions {
        let extends = extends.as_ref().map(|base| format!("extends {base}: ")).unwrap_or_default();
        writeln!(lines, "{name:<names$} {provider:<providers$} {extends}{description}")?;
    }
    Ok(lines)
}

/// The name and the text of a policy file, or why it cannot be read.
pub(crate) type PolicyText = (String, anyhow::Result<String>);

/// The file names and texts of a built-in policy, of a file, or of the policies of a directory.
pub(crate) fn policy_texts(name: &str) -> anyhow::Result<Vec<(String, String)>> {
    let texts = each_policy_text(name, true, &mut Vec::new())?;
    texts.into_iter().map(|(file, text)| Ok((file, text?))).collect()
}

/// [`policy_texts`], each on its own, perhaps of pipes. The other files of a directory are added to `others`.
pub(crate) fn each_policy_text(
    name: &str,
    pipes: bool,
    others: &mut Vec<(String, OtherKind)>,
) -> anyhow::Result<Vec<PolicyText>> {
    if let Some(policy) = builtin::find_file(name) {
        return Ok(vec![(policy.file.to_owned(), Ok(policy.text.to_owned()))]);
    }
    let (path, allowed) = (Path::new(name), Allowed { pipes, ..POLICY });
    if !name.contains(['/', '.']) && !path.exists() {
        let mut names = builtin::POLICIES.iter().map(|policy| policy.name);
        let hint = match names.clone().find(|known| known.starts_with(name)).or(closest(name, &mut names)) {
            Some(closest) => {
                format!("hint: did you mean `{closest}`? `fabric-injector policy list` lists them all")
            }
            None => available(),
        };
        bail!("there is no built-in policy `{name}`, nor a file or folder of that name\n{hint}");
    }
    if !path.is_dir() {
        return Ok(vec![(name.to_owned(), read_file(name, allowed))]);
    }
    let mut files = policy_files(path).with_context(|| format!("{name} cannot be read"))?;
    let parts = path.join("parts");
    if parts.is_dir() {
        files.extend(policy_files(&parts).with_context(|| format!("{} cannot be read", parts.display()))?);
    }
    ensure!(!files.is_empty(), "{name} has no policy in it; a policy is a file that ends with `.yaml`");
    let before = others.len();
    let mut policies = Vec::new();
    for file in files {
        let text = read_file(&file, allowed);
        match text.as_ref().ok().and_then(|text| OtherKind::detect(text)) {
            Some(foreign) => others.push((file, foreign)),
            None => policies.push((file, text)),
        }
    }
    ensure!(
        !policies.is_empty(),
        "{name} has no policy in it; a policy has `kind: FabricPolicy`\nhint: {}",
        notes("used", &others[before..]).join("; ")
    );
    Ok(policies)
}

/// A note about the files of cases, and one about other files that are not policies. Neither are used or checked.
pub(crate) fn notes(verb: &str, others: &[(String, OtherKind)]) -> Vec<String> {
    const SHOWN: usize = 5;
    let (cases, others): (Vec<_>, Vec<_>) = others.iter().partition(|(_, foreign)| foreign.is_cases());
    let listed = |files: &[&(String, OtherKind)]| {
        let kind =
            |foreign: &OtherKind| foreign.kind.as_ref().map(|kind| format!(" ({kind})")).unwrap_or_default();
        let mut shown: Vec<String> =
            files.iter().take(SHOWN).map(|(file, foreign)| format!("{file}{}", kind(foreign))).collect();
        if files.len() > SHOWN {
            shown.push(format!("{} more", files.len() - SHOWN));
        }
        shown.join(", ")
    };
    let mut notes = Vec::new();
    if let [(first, _), ..] = cases.as_slice() {
        let folder = Path::new(first).parent().unwrap_or(Path::new("."));
        notes.push(format!(
            "not {verb}, cases: {}; run `fabric-injector policy test {}`",
            listed(&cases),
            folder.display()
        ));
    }
    if !others.is_empty() {
        notes.push(format!("not {verb}, no policies: {}", listed(&others)));
    }
    notes
}

/// The policy files of a directory, sorted by name, without hidden ones: a mounted ConfigMap has two.
pub(crate) fn policy_files(folder: &Path) -> std::io::Result<Vec<String>> {
    let is_hidden =
        |path: &PathBuf| path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    let paths = with_endings(folder, &["yaml", "yml"])?.into_iter().filter(|path| !is_hidden(path));
    Ok(paths.map(|path| path.to_string_lossy().into_owned()).collect())
}

fn read_file(path: &str, allowed: Allowed) -> anyhow::Result<String> {
    let bytes = read_bounded(Path::new(path), Path::new(path), allowed)?;
    String::from_utf8(bytes).map_err(|error| {
        anyhow::anyhow!("{path} is not text in UTF-8 from byte {} on", error.utf8_error().valid_up_to() + 1)
    })
}

/// Checks that the values file names only known policies, and enables only the provider of the policies in use.
fn check_values(values: &Values, definitions: &[Definition], enabled: Option<&str>) -> anyhow::Result<()> {
    let built_in = builtin::definitions()?;
    values.check(definitions, &built_in)?;
    if let (Some(enabled), Some(policy)) =
        (enabled, definitions.iter().find(|policy| Some(policy.provider.as_str()) != enabled))
    {
        bail!(
            "the values file enables `{enabled}`, and policy `{}` is for `{}`; one provider at a time",
            policy.name,
            policy.provider
        );
    }
    Ok(())
}

/// The names of the built-in policies, as the hint of an error.
pub(crate) fn available() -> String {
    let names: Vec<String> = builtin::POLICIES.iter().map(|policy| format!("`{}`", policy.name)).collect();
    format!(
        "hint: the built-in policies are {}; `fabric-injector policy list` describes them",
        names.join(", ")
    )
}
