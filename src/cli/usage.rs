//! Hints for arguments that a command does not take.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Adds a hint to two errors: `-f` for a file without its option, and no `-f` for a command that takes files without
/// it.
pub(super) fn with_hint(mut error: Error, program: &Command, arguments: &[OsString]) -> Error {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return error };
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let command = called(program, arguments);
    let has_option = command.get_opts().any(|option| option.get_long() == Some("filename"));
    let names = command.get_positionals().flat_map(|argument| argument.get_value_names().unwrap_or_default());
    let takes_files = names.into_iter().any(|name| name.contains("FILE"));
    let hint = if has_option && !argument.starts_with('-') {
        format!("use `-f {argument}`")
    } else if !has_option && takes_files && ["-f", "--filename"].contains(&argument.as_str()) {
        format!("write the file without `{argument}`")
    } else {
        return error;
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    error
}

/// The command that the first words name.
fn called<'c>(program: &'c Command, arguments: &[OsString]) -> &'c Command {
    let mut command = program;
    for word in arguments.iter().skip(1) {
        match command.find_subcommand(word) {
            Some(subcommand) => command = subcommand,
            None => break,
        }
    }
    command
}
