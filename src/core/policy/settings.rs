//! Settings of libraries: environment variables that processes need which a container does not start itself.
//!
//! A rank that `mpirun` starts over ssh does not inherit the environment of its container. It reads the files that its
//! libraries read, and has the variables that `mpirun` hands on.

use crate::core::schema::Format;
use crate::core::yaml::Node;

use super::diagnostic::Diagnostic;
use super::interpolation::Interpolation;
use super::phase::{Names, Phase};
use super::reader::{self, Fields};

/// Variables of one library.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) name: String,
    /// Names, or beginnings of names that end in `*`.
    variables: Vec<String>,
    pub(crate) when: Option<Interpolation>,
    /// The containers; without it, those with GPUs.
    pub(crate) containers: Option<Interpolation>,
    pub(crate) way: Way,
}

/// The way on which the variables reach the ranks.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    /// The library reads a file of `NAME=VALUE` lines.
    File {
        path: String,
        /// The longest value that the library reads, in bytes.
        max_value: usize,
        /// Variables that name another file.
        except: Vec<String>,
    },
    /// A command hands on the variables that its options name.
    Launcher { commands: Vec<String>, option: String },
}

/// The settings' names become parts of annotations and volumes.
const MAX_NAME: usize = 40;

impl Settings {
    /// Calls `visit` with every interpolation.
    pub(crate) fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.when.iter().chain(&self.containers).for_each(visit);
    }

    /// Names, or beginnings of names that end in `*`.
    pub(super) fn patterns(&self) -> &[String] {
        &self.variables
    }

    /// Returns whether a variable is one of these settings.
    pub(crate) fn include(&self, variable: &str) -> bool {
        self.variables.iter().any(|pattern| includes(pattern, variable))
    }
}

/// Returns whether a variable is one of those that a pattern names.
pub(super) fn includes(pattern: &str, variable: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => variable.starts_with(beginning),
        None => variable == pattern,
    }
}

/// Reads the list `settings`.
pub(super) fn read(node: Option<&Node>, names: &Names) -> Result<Vec<Settings>, Diagnostic> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let mut settings: Vec<Settings> = Vec::new();
    for item in reader::items(node, "`settings`")? {
        let read = one(item, names)?;
        if settings.iter().any(|known| known.name == read.name) {
            return Err(Diagnostic::new(item.span, format!("two settings are called `{}`", read.name)));
        }
        settings.push(read);
    }
    Ok(settings)
}

fn one(node: &Node, names: &Names) -> Result<Settings, Diagnostic> {
    let mut fields = Fields::of(node, "an entry of `settings`")?;
    let name_node = fields.required("name")?;
    let name = reader::text(name_node, "the name of settings")?;
    if Format::DnsLabel.check(name).is_err() || name.len() > MAX_NAME {
        return Err(Diagnostic::new(name_node.span, format!("the name of settings is `{name}`"))
            .hint(format!("use lower-case letters, digits and hyphens, at most {MAX_NAME}")));
    }
    let variables = fields.required("variables")?;
    let variables = reader::items(variables, "`variables`")?.iter().map(pattern).collect::<Result<_, _>>()?;
    let condition = |node: Option<&Node>, what: &str, phase| {
        node.map(|node| Interpolation::condition(node, what, names, phase)).transpose()
    };
    let when = condition(fields.optional("when"), "`when`", Phase::Pod)?;
    let containers = condition(fields.optional("containers"), "`containers`", Phase::Container)?;
    let file = fields.optional("file").map(file).transpose()?;
    let launcher = fields.optional("launcher").map(launcher).transpose()?;
    fields.finish()?;
    let way = match (file, launcher) {
        (Some(way), None) | (None, Some(way)) => way,
        (None, None) => {
            return Err(Diagnostic::new(node.span, format!("the settings `{name}` reach no process"))
                .hint("give them `file` or `launcher`"));
        }
        (Some(_), Some(_)) => {
            return Err(Diagnostic::new(
                node.span,
                format!("the settings `{name}` have two ways to the ranks"),
            )
            .hint("write one entry with `file` and one with `launcher`"));
        }
    };
    Ok(Settings { name: name.to_owned(), variables, when, containers, way })
}

fn pattern(node: &Node) -> Result<String, Diagnostic> {
    let text = reader::text(node, "the name of a variable")?;
    let name = text.strip_suffix('*').unwrap_or(text);
    let fits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if fits {
        return Ok(text.to_owned());
    }
    Err(Diagnostic::new(node.span, format!("`{text}` is not the name of a variable"))
        .hint("write a name such as `NCCL_DEBUG`, or its beginning and `*`"))
}

fn file(node: &Node) -> Result<Way, Diagnostic> {
    let mut fields = Fields::of(node, "`file`")?;
    let path_node = fields.required("path")?;
    let path = reader::text(path_node, "the path of a settings file")?;
    let clean = path.starts_with('/')
        && path.split('/').skip(1).all(|part| !matches!(part, "" | "." | ".."))
        && !path.contains([':', ',']);
    if !clean {
        return Err(Diagnostic::new(path_node.span, format!("the path of a settings file is `{path}`"))
            .hint("write the absolute path that the library reads, such as `/etc/nccl.conf`"));
    }
    let except = fields.optional("exceptVariables");
    let except = except.map(|node| reader::texts(node, "`exceptVariables`")).transpose()?.unwrap_or_default();
    let max_value = fields.optional("maxValue").map(max_value).transpose()?.unwrap_or(usize::MAX);
    fields.finish()?;
    Ok(Way::File { path: path.to_owned(), max_value, except })
}

fn max_value(node: &Node) -> Result<usize, Diagnostic> {
    let number = node.to_value().as_u64().and_then(|number| usize::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or_else(|| {
        reader::expected(node, "`maxValue` to be a number of bytes").hint("write a whole number above 0")
    })
}

fn launcher(node: &Node) -> Result<Way, Diagnostic> {
    let mut fields = Fields::of(node, "`launcher`")?;
    let commands_node = fields.required("commands")?;
    let commands = reader::texts(commands_node, "`commands`")?;
    let option_node = fields.required("option")?;
    let option = reader::text(option_node, "`option`")?.to_owned();
    fields.finish()?;
    if commands.is_empty() || commands.iter().any(String::is_empty) {
        return Err(Diagnostic::new(commands_node.span, "`commands` names no command")
            .hint("write for example `[mpirun, mpiexec]`"));
    }
    if !option.starts_with('-') {
        return Err(Diagnostic::new(option_node.span, format!("`option` is `{option}`"))
            .hint("write the option as in a command line, such as `-x`"));
    }
    Ok(Way::Launcher { commands, option })
}
