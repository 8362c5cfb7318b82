//! Amounts of bytes that are too small to be meant, and capabilities that no kernel has.

use crate::definition::{Definition, keys};
use crate::interpolation::{Interpolation, text_of};
use crate::overlay::Tree;
use crate::source::{Diagnostic, TINY_AMOUNT, UNKNOWN_ENUM_VALUE, closest, did_you_mean};
use fabric_yaml::Span;
use fabric_yaml::quantity::Quantity;

use crate::check::writes;

/// The capabilities of Linux.
const CAPABILITIES: &[&str] = &[
    "ALL",
    "AUDIT_CONTROL",
    "AUDIT_READ",
    "AUDIT_WRITE",
    "BLOCK_SUSPEND",
    "BPF",
    "CHECKPOINT_RESTORE",
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "IPC_LOCK",
    "IPC_OWNER",
    "KILL",
    "LEASE",
    "LINUX_IMMUTABLE",
    "MAC_ADMIN",
    "MAC_OVERRIDE",
    "MKNOD",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_RAW",
    "PERFMON",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYSLOG",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_CHROOT",
    "SYS_MODULE",
    "SYS_NICE",
    "SYS_PACCT",
    "SYS_PTRACE",
    "SYS_RAWIO",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "WAKE_ALARM",
];

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut tiny_limits = Vec::new();
    for write in writes(definition) {
        if write.is_amount() {
            let Some(name) = write.name().filter(|name| is_in_bytes(name)) else { continue };
            found.extend(default(definition, write.value));
            let Some(value) = tiny(write.value) else { continue };
            // One warning for a limit and its request.
            if write.field.name == "limits" || !tiny_limits.contains(&name) {
                found.push(of_amount(name, &value, write.value.span));
                tiny_limits.push(name);
            }
        } else if write.path.contains(&"capabilities") {
            found.extend(capability(write.value));
        } else if let Some(limit) = write.value.at(&["emptyDir", "sizeLimit"]) {
            found.extend(default(definition, limit));
            found.extend(tiny(limit).map(|value| of_amount("sizeLimit", &value, limit.span)));
        }
    }
    // Several rules can read a parameter.
    found.sort_by_key(|finding| (finding.span.line, finding.span.column));
    found.dedup();
    found
}

fn is_in_bytes(resource: &str) -> bool {
    ["memory", "ephemeral-storage"].contains(&resource) || resource.starts_with("hugepages-")
}

/// The warning for an amount that is a parameter whose default is a number without a unit, and less than 1 MiB.
fn default(definition: &Definition, amount: &Tree) -> Option<Diagnostic> {
    let Some(Interpolation::Expression(expression)) = amount.as_text() else { return None };
    let mut parameters = definition.parameters.iter();
    let parameter = parameters.find(|known| known.name == expression.source().trim())?;
    let value = parameter.default.as_str()?;
    value.parse::<u32>().ok().filter(|bytes| *bytes > 0 && *bytes < 1 << 20)?;
    let name = &parameter.name;
    let message =
        format!("the default of `{name}` is {value} bytes: a quantity without a unit is a number of bytes");
    let hint = format!("write a unit, such as `{value}Mi` or `{value}Gi`");
    let span = definition.place(&keys(["parameters", name, "default"]));
    Some(Diagnostic::warning(TINY_AMOUNT, span, message).hint(hint))
}

fn of_amount(name: &str, value: &str, span: Span) -> Diagnostic {
    let message =
        format!("`{name}: {value}` is less than 1 KiB: a quantity without a unit is a number of bytes");
    let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
    let hint = format!("write a unit, such as `{digits}Mi` or `{digits}Gi`");
    Diagnostic::warning(TINY_AMOUNT, span, message).hint(hint)
}

/// An amount of less than 1 KiB, as the policy writes it.
fn tiny(amount: &Tree) -> Option<String> {
    let value = amount.as_value()?;
    let (amount, zero, kibibyte) =
        (Quantity::from_value(value)?, Quantity::parse("0")?, Quantity::parse("1Ki")?);
    (amount > zero && amount < kibibyte).then(|| text_of(value))
}

/// The warning about a name that is not a capability.
fn capability(tree: &Tree) -> Option<Diagnostic> {
    let name = tree.as_str()?;
    let upper = name.to_uppercase();
    if name.is_empty() || CAPABILITIES.contains(&upper.as_str()) {
        return None;
    }
    let bare = upper.strip_prefix("CAP_").unwrap_or(&upper).replace('-', "_");
    let message = format!("Kubernetes has no capability `{name}`, so the container may not start");
    let hint = match closest(&bare, CAPABILITIES.iter().copied()) {
        Some(closest) if closest == bare && upper.starts_with("CAP_") => {
            format!("write `{closest}`: Kubernetes names capabilities without `CAP_`")
        }
        Some(closest) => did_you_mean(closest),
        None => "write the name of a capability, such as `IPC_LOCK`".to_owned(),
    };
    Some(Diagnostic::warning(UNKNOWN_ENUM_VALUE, tree.span, message).hint(hint))
}
