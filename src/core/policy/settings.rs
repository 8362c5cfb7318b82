//! Settings of libraries: environment variables that processes need which a container does not start itself.
//!
//! A rank that `mpirun` starts over ssh does not inherit the environment of its container. It reads the files that its
//! libraries read, and has the variables that `mpirun` hands on.

use crate::core::schema::Format;
use crate::core::yaml::Node;

use super::diagnostic::{DUPLICATE_NAME, Diagnostic, MISSING_KEY};
use super::interpolation::Interpolation;
use super::phase::{Names, Phase};
use super::problems::{Checked, Problems, all};
use super::reader::{self, Fields};

/// Variables of one library.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) name: String,
    /// Names, or beginnings of names that end in `*`.
    pub(crate) variables: Vec<String>,
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
pub(super) fn read(node: &Node, names: &Names) -> Checked<Vec<Settings>> {
    let mut known: Vec<String> = Vec::new();
    all(reader::items(node, "`settings`")?.iter().map(|item| {
        let read = one(item, names)?;
        if known.contains(&read.name) {
            let message = format!("two settings are called `{}`", read.name);
            return Err(Problems::from(Diagnostic::new(item.span, message).code(DUPLICATE_NAME)));
        }
        known.push(read.name.clone());
        Ok(read)
    }))
}

fn one(node: &Node, names: &Names) -> Checked<Settings> {
    let mut fields = Fields::of(node, "an entry of `settings`")?;
    let name = fields.required("name", self::name);
    let variables =
        fields.required("variables", |node| all(reader::items(node, "`variables`")?.iter().map(pattern)));
    let when = fields.optional("when", |node| Interpolation::condition(node, "`when`", names, Phase::Pod));
    let containers = fields.optional("containers", |node| {
        Interpolation::condition(node, "`containers`", names, Phase::Container)
    });
    let file = fields.optional("file", file);
    let launcher = fields.optional("launcher", launcher);
    fields.finish()?;
    let name = name?;
    let way = match (file?, launcher?) {
        (Some(way), None) | (None, Some(way)) => way,
        (None, None) => {
            return Err(Diagnostic::new(node.span, format!("the settings `{name}` reach no process"))
                .code(MISSING_KEY)
                .hint("give them `file` or `launcher`")
                .into());
        }
        (Some(_), Some(_)) => {
            let message = format!("the settings `{name}` have two ways to the ranks");
            return Err(Diagnostic::new(node.span, message)
                .hint("write one entry with `file` and one with `launcher`")
                .into());
        }
    };
    Ok(Settings { name, variables: variables?, when: when?, containers: containers?, way })
}

fn name(node: &Node) -> Result<String, Diagnostic> {
    let name = reader::text(node, "the name of settings")?;
    if Format::DnsLabel.check(name).is_ok() && name.len() <= MAX_NAME {
        return Ok(name.to_owned());
    }
    Err(Diagnostic::new(node.span, format!("the name of settings is `{name}`"))
        .hint(format!("use lower-case letters, digits and hyphens, at most {MAX_NAME}")))
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

fn file(node: &Node) -> Checked<Way> {
    let mut fields = Fields::of(node, "`file`")?;
    let path = fields.required("path", path);
    let except = fields.optional("exceptVariables", |node| reader::texts(node, "`exceptVariables`"));
    let max_value = fields.optional("maxValue", max_value);
    fields.finish()?;
    Ok(Way::File {
        path: path?,
        max_value: max_value?.unwrap_or(usize::MAX),
        except: except?.unwrap_or_default(),
    })
}

fn path(node: &Node) -> Result<String, Diagnostic> {
    let path = reader::text(node, "the path of a settings file")?;
    let clean = path.starts_with('/')
        && path.split('/').skip(1).all(|part| !matches!(part, "" | "." | ".."))
        && !path.contains([':', ','])
        && Format::FilePath.check(path.rsplit('/').next().unwrap_or_default()).is_ok();
    if clean {
        return Ok(path.to_owned());
    }
    Err(Diagnostic::new(node.span, format!("the path of a settings file is `{path}`"))
        .hint("write the absolute path that the library reads, such as `/etc/nccl.conf`"))
}

fn max_value(node: &Node) -> Result<usize, Diagnostic> {
    let number = node.to_value().as_u64().and_then(|number| usize::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or_else(|| {
        reader::expected(node, "`maxValue` to be a number of bytes").hint("write a whole number above 0")
    })
}

fn launcher(node: &Node) -> Checked<Way> {
    let mut fields = Fields::of(node, "`launcher`")?;
    let commands = fields.required("commands", |node| {
        let commands = reader::texts(node, "`commands`")?;
        if commands.is_empty() || commands.iter().any(String::is_empty) {
            return Err(Problems::from(
                Diagnostic::new(node.span, "`commands` names no command")
                    .hint("write for example `[mpirun, mpiexec]`"),
            ));
        }
        Ok(commands)
    });
    let option = fields.required("option", |node| {
        let option = reader::text(node, "`option`")?;
        if option.starts_with('-') {
            return Ok(option.to_owned());
        }
        Err(Diagnostic::new(node.span, format!("`option` is `{option}`"))
            .hint("write the option as in a command line, such as `-x`"))
    });
    fields.finish()?;
    Ok(Way::Launcher { commands: commands?, option: option? })
}
