//! `offeredName` and `offeredNames`: the resources that the nodes offer, by constant patterns.
//!
//! The requested names are part of the pod's node selection, so they must be known without a pod. A call therefore
//! becomes a name in the evaluated expression, which is bound when the policy is resolved.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};

use super::CompileError;
use super::tree::{levels, parts_mut};
use crate::from_nodes::{Fact, FromNodes};

const FUNCTIONS: [(&str, Fact); 2] = [("offeredName", Fact::Name), ("offeredNames", Fact::Names)];

/// The facts about nodes that an expression requests.
#[derive(Debug, Default)]
pub(super) struct Offered {
    /// The calls, by the names that replace them.
    pub(super) calls: Vec<(String, FromNodes)>,
}

impl Offered {
    pub(super) fn read(expression: &IdedExpr, source: &str) -> Result<Self, CompileError> {
        let mut calls = Vec::new();
        for part in levels(expression).flatten() {
            if let Expr::Call(call) = &part.expr
                && let Some((_, fact)) = function(call)
            {
                calls.push(read(call, *fact, source)?);
            }
        }
        Ok(Self { calls })
    }
}

fn function(call: &CallExpr) -> Option<&'static (&'static str, Fact)> {
    FUNCTIONS.iter().find(|(name, _)| call.target.is_none() && call.func_name == *name)
}

fn read(call: &CallExpr, fact: Fact, source: &str) -> Result<(String, FromNodes), CompileError> {
    let failed = |message: String| CompileError {
        message: format!("`{}` {message}", call.func_name),
        at: source.find(&call.func_name).unwrap_or_default(),
        length: call.func_name.len(),
        hint: Some(format!(
            "write resources in quotes, as in `{}('rdma/ib', 'rdma/shared_*')`",
            call.func_name
        )),
    };
    let patterns = patterns(call).ok_or_else(|| failed("takes constants, not expressions".to_owned()))?;
    let fact = FromNodes::new(fact, patterns.iter().copied())
        .map_err(|problem| failed(format!("asks for resources of nodes: {problem}")))?;
    Ok((name(call, &patterns), fact))
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

/// No other name begins with `@`.
fn name(call: &CallExpr, patterns: &[&str]) -> String {
    format!("@{}({})", call.func_name, patterns.join(", "))
}

/// Replaces the calls by their names. Returns whether there are any.
pub(super) fn replace_calls(expression: &mut IdedExpr) -> bool {
    if let Expr::Call(call) = &expression.expr
        && function(call).is_some()
        && let Some(patterns) = patterns(call)
    {
        expression.expr = Expr::Ident(name(call, &patterns));
        return true;
    }
    parts_mut(&mut expression.expr).into_iter().fold(false, |replaced, part| replace_calls(part) | replaced)
}
