//! Variables: named values, computed or constant.

use fabric_yaml::{Content, Node};

use crate::expression::Expression;
use crate::interpolation::{Interpolation, Names, Phase, first_read};
use crate::overlay::Tree;
use crate::parameter::Parameter;
use crate::source::{Checked, Diagnostic, INVALID_EXPRESSION, reader};

/// A variable of a policy.
#[derive(Debug, Clone)]
pub struct Variable {
    pub name: String,
    /// The value where no row of `machines` gives one. A map or a list is a table, which expressions look up.
    pub value: Tree,
    pub phase: Phase,
    /// Its rows.
    pub column: Option<Box<Parameter>>,
}

/// Former keys of a variable. A table cannot have them, so an old policy does not load with another meaning.
pub const OLD_KEYS: [&str; 2] = ["byNode", "fromNodes"];

impl Variable {
    /// Reads a variable. Its phase follows from those of the variables that it reads.
    pub(crate) fn read(name: &str, node: &Node, names: &Names) -> Checked<Self> {
        if let Content::Map(entries) = &node.content
            && let Some(old) = entries.iter().find(|entry| OLD_KEYS.contains(&entry.key.as_str()))
        {
            return Err(reader::unknown("a variable", old, String::new).into());
        }
        let value = Tree::of_variable(node, names)?;
        ends_at_its_brace(&value, node, names)?;
        Ok(Self { name: name.to_owned(), value, phase: Phase::Fixed, column: None })
    }

    /// Determines when the value is known. The phases of all names that it reads are already known.
    pub(crate) fn find_phase(&mut self, names: &Names) -> Result<(), Diagnostic> {
        one_phase(&self.value, names)?;
        let mut phase = Phase::Fixed;
        self.value.texts(&mut |text| phase = phase.max(text.phase(names)));
        self.phase = phase;
        Ok(())
    }
}

/// Fails for an expression that goes on after its `}`, as in `${totalGpus > 8} && pinned`. A shell has these operators,
/// too, but not in front of names of the policy.
fn ends_at_its_brace(value: &Tree, node: &Node, names: &Names) -> Result<(), Diagnostic> {
    let Some(Interpolation::Mixed(parts)) = value.as_text() else { return Ok(()) };
    let [Interpolation::Expression(first), Interpolation::Literal(rest)] = &**parts else { return Ok(()) };
    let operand = ["&&", "||"].iter().find_map(|operator| rest.trim_start().strip_prefix(operator));
    let Some(Ok(operand)) = operand.map(Expression::compile) else { return Ok(()) };
    if operand.names().is_empty() || !operand.names().iter().all(|name| names.is_taken(name)) {
        return Ok(());
    }
    let message = format!("`{}` is plain text: the expression ends at the `}}`", rest.trim());
    let hint = format!("write `${{{}{rest}}}`", first.source());
    Err(Diagnostic::error(INVALID_EXPRESSION, node.span, message).hint(hint))
}

/// A variable belongs to a container or to the pod after injection, but not to both.
fn one_phase(value: &Tree, names: &Names) -> Result<(), Diagnostic> {
    let first = |phase| first_read(|name| names.get(name) == Some(phase), |visit| value.texts(visit));
    let found = (first(Phase::Container), first(Phase::Injected));
    let (Some((container, span)), Some((injected, _))) = found else { return Ok(()) };
    let (of_container, of_injected) = (Phase::Container.describe(), Phase::Injected.describe());
    let message = format!("`{container}` is known only {of_container}, and `{injected}` only {of_injected}");
    Err(Diagnostic::new(span, message).hint("docs/policy.md says where each name can be used"))
}
