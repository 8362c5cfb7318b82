//! `files` of a policy.

use fabric_yaml::{Entry, Node};

use crate::definition::SettingsFile;
use crate::interpolation::{Interpolation, Names, Phase};
use crate::keys;
use crate::schema::Format;
use crate::source::reader::{self, Fields};
use crate::source::{Checked, DUPLICATE_NAME, Diagnostic, Problems, all};

/// Each file is a volume and an annotation of the pod, and each container looks at each.
const MAX_FILES: usize = 64;
/// The limit on the names and prefixes of one file. Each variable is compared with each of them.
const MAX_VARIABLES: usize = 64;

/// The names become parts of annotations and volumes.
const MAX_NAME: usize = 40;

/// Reads the map `files`.
pub(super) fn read(node: &Node, names: &Names) -> Checked<Vec<SettingsFile>> {
    let mut known: Vec<String> = Vec::new();
    let hint = "write `files: {PATH: {variables: […]}}`";
    let entries = reader::map(node, "`files`").map_err(|error| error.hint(hint))?;
    reader::check_count(entries.len(), MAX_FILES, "`files`", node.span)
        .map_err(|error| error.hint("name the variables of one library in one entry"))?;
    all(entries.iter().map(|entry| {
        let read = one(entry, names)?;
        reader::check_count(read.variables.len(), MAX_VARIABLES, "variables of a file", entry.span)
            .map_err(|error| error.hint("write a beginning and `*`, as in `NCCL_*`"))?;
        if known.contains(&read.name) {
            let message = format!("two entries of `files` have the name `{}`", read.name);
            return Err(Problems::from(Diagnostic::error(DUPLICATE_NAME, entry.span, message)));
        }
        known.push(read.name.clone());
        Ok(read)
    }))
}

fn one(entry: &Entry<Node>, names: &Names) -> Checked<SettingsFile> {
    let mut fields = Fields::read(&entry.value, &keys::FILE)?.named_at(entry.span);
    let name = fields.take(name(entry));
    let variables = fields.required("variables", patterns);
    let when = fields.optional("when", |node| Interpolation::condition(node, "when", names, Phase::Pod));
    let env = fields.optional("env", |node| {
        let name = reader::text(node, "the name of a variable")?;
        reader::variable_name(node, name, "write a name such as `NCCL_CONF_FILE`")?;
        Ok::<_, Diagnostic>(name.to_owned())
    });
    fields.finish()?;
    Ok(SettingsFile { name: name?, variables: variables?, when: when?, path: entry.key.clone(), env: env? })
}

fn patterns(node: &Node) -> Checked<Vec<String>> {
    let items = reader::items(node, "the list")?;
    if items.is_empty() {
        let hint = "write names such as `NCCL_DEBUG`";
        return Err(Diagnostic::new(node.span, "the list of variables is empty").hint(hint).into());
    }
    all(items.iter().map(|item| {
        let text = reader::text(item, "the name of a variable")?;
        let hint = "write a name such as `NCCL_DEBUG`, or its beginning and `*`";
        reader::variable_name(item, text.strip_suffix('*').unwrap_or(text), hint)?;
        Ok::<_, Diagnostic>(text.to_owned())
    }))
}

/// The name of a file, by its path, without the ending.
fn name(entry: &Entry<Node>) -> Result<String, Diagnostic> {
    reader::string_key(entry)?;
    let path = &entry.key;
    let last = path.rsplit('/').next().unwrap_or_default();
    let clean = path.starts_with('/')
        && path.split('/').skip(1).all(|part| !matches!(part, "" | "." | ".."))
        && !path.contains([':', ','])
        && Format::FilePath.check(last).is_ok();
    if !clean {
        return Err(Diagnostic::new(entry.span, format!("the path of a file is `{path}`"))
            .hint("write the absolute path that the library reads, such as `/etc/nccl.conf`"));
    }
    let stem = last.trim_start_matches('.').split('.').next().unwrap_or_default();
    let name: String = stem.to_ascii_lowercase().replace('_', "-");
    if Format::DnsLabel.check(&name).is_ok() && name.len() <= MAX_NAME {
        return Ok(name);
    }
    let message = format!("the file is called `{last}`, and annotations and volumes cannot have that name");
    let hint = format!("use letters, digits and hyphens before the first dot, at most {MAX_NAME}");
    Err(Diagnostic::new(entry.span, message).hint(hint))
}
