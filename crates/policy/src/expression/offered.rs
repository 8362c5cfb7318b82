//! `offeredName` and `offeredNames`: the resources that the nodes offer, by constant patterns.
//!
//! The requested names are part of the pod's node selection, so they must be known without a pod. A call therefore
//! becomes a name in the evaluated expression, which is bound when the policy is resolved.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};

use super::CompileError;
use super::tree::each_mut;
use crate::from_nodes::{Fact, FromNodes};

const FUNCTIONS: [(&str, Fact); 2] = [("offeredName", Fact::Name), ("offeredNames", Fact::Names)];

/// Replaces the calls by names. Returns the facts about nodes that they request, by these names.
pub(super) fn replace_calls(
    expression: &mut IdedExpr,
    source: &str,
) -> Result<Vec<(String, FromNodes)>, CompileError> {
    let mut calls = Vec::new();
    each_mut(expression, &mut |part| {
        if let Expr::Call(call) = &part.expr
            && let Some((_, fact)) = function(call)
        {
            let read = read(call, *fact, source);
            if let Ok((name, _)) = &read {
                part.expr = Expr::Ident(name.clone());
            }
            calls.push(read);
        }
    });
    calls.into_iter().collect()
}

fn function(call: &CallExpr) -> Option<&'static (&'static str, Fact)> {
    FUNCTIONS.iter().find(|(name, _)| call.target.is_none() && call.func_name == *name)
}

fn read(call: &CallExpr, fact: Fact, source: &str) -> Result<(String, FromNodes), CompileError> {
    let name = &call.func_name;
    let failed = |message: String| CompileError {
        message: format!("`{name}` {message}"),
        at: source.find(name).unwrap_or_default(),
        length: name.len(),
        hint: Some(format!("write resources in quotes, as in `{name}('rdma/ib', 'rdma/shared_*')`")),
    };
    let patterns = patterns(call).ok_or_else(|| failed("takes constants, not expressions".to_owned()))?;
    let fact = FromNodes::new(fact, patterns.iter().copied())
        .map_err(|problem| failed(format!("asks for resources of nodes: {problem}")))?;
    // No other name begins with `@`.
    Ok((format!("@{name}({})", patterns.join(", ")), fact))
}

/// The patterns of a call; `None` if one is not a constant.
fn patterns(call: &CallExpr) -> Option<Vec<&str>> {
    let mut texts = Vec::new();
    for argument in &call.args {
        let Expr::Literal(LiteralValue::String(text)) = &argument.expr else { return None };
        texts.push(text.inner());
    }
    Some(texts)
}
