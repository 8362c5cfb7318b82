//! The place of a part of an expression in its text.

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr};

use super::Walker;
use super::fields::literal_text;

impl Walker<'_> {
    /// The byte range of a part of the expression: the first byte, and the length.
    pub(super) fn range(&self, expression: &IdedExpr) -> (usize, usize) {
        let source = &self.expression.source;
        let mut range: Option<(usize, usize)> = None;
        self.cover(expression, &mut range);
        let whole = (0, source.len());
        // The library counts in bytes or in characters.
        if !source.is_ascii() {
            return whole;
        }
        let Some((start, end)) = range else { return whole };
        match source.get(start..end) {
            Some(text) if !text.is_empty() => (start, closed(source, start, end) - start),
            _ => whole,
        }
    }

    fn cover(&self, expression: &IdedExpr, range: &mut Option<(usize, usize)>) {
        // That of `has(…)` is the bracket.
        let has_place = !matches!(&expression.expr, Expr::Select(select) if select.test);
        let place = self.expression.program.source_info().offset_for(expression.id).filter(|_| has_place);
        if let Some((start, stop)) = place {
            let (start, end) = (start as usize, stop as usize + 1);
            let start = start - self.name_before(expression, start);
            *range = Some(range.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
        }
        let mut cover = |expression: &IdedExpr| self.cover(expression, range);
        match &expression.expr {
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) => {}
            Expr::Call(CallExpr { func_name, args, .. }) if func_name == "_?._" => {
                let [operand, key] = args.as_slice() else { return };
                let field = literal_text(key).unwrap_or_default();
                self.cover_field(operand, field, range);
            }
            Expr::Call(call) => {
                call.target.iter().for_each(|target| cover(target));
                call.args.iter().for_each(cover);
            }
            // The library's place of a selection is its dot.
            Expr::Select(select) => self.cover_field(&select.operand, &select.field, range),
            Expr::List(list) => list.elements.iter().for_each(cover),
            Expr::Map(map) => map.entries.iter().for_each(|entry| {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    cover(&entry.key);
                    cover(&entry.value);
                }
            }),
            Expr::Comprehension(comprehension) => {
                cover(&comprehension.iter_range);
                cover(&comprehension.loop_step);
            }
        }
    }

    /// Covers an operand and the name of the field that is selected from it.
    fn cover_field(&self, operand: &IdedExpr, field: &str, range: &mut Option<(usize, usize)>) {
        let mut inner = None;
        self.cover(operand, &mut inner);
        let Some((start, end)) = inner else { return };
        let source = &self.expression.source;
        let end = closed(source, start, end.min(source.len()));
        let after = source.get(end..).and_then(|rest| rest.find(field));
        let end = after.map_or(end, |at| end + at + field.len());
        *range = Some(range.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
    }

    /// The length of a function's name in front of its bracket, which is the library's place of a call.
    fn name_before(&self, expression: &IdedExpr, bracket: usize) -> usize {
        let Expr::Call(call) = &expression.expr else { return 0 };
        let before = self.expression.source.get(..bracket).unwrap_or_default();
        let is_called = self.expression.source[bracket.min(self.expression.source.len())..].starts_with('(');
        if is_called && before.ends_with(&call.func_name) { call.func_name.len() } else { 0 }
    }

    /// The text of a part, in backticks.
    pub(super) fn quoted(&self, expression: &IdedExpr) -> String {
        let (at, length) = self.range(expression);
        let text: String = self
            .expression
            .source
            .get(at..at + length)
            .unwrap_or_default()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        if text.chars().count() <= 60 {
            return format!("`{text}`");
        }
        let short: String = text.chars().take(60).collect();
        format!("`{short}…`")
    }
}

/// The end of a part after its name, brackets and the rest of a call, which the library does not count as part of it.
fn closed(source: &str, start: usize, end: usize) -> usize {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let text = &source[start..end];
    let mut quote = None;
    let mut open = 0usize;
    for c in text.chars() {
        match (quote, c) {
            (Some(mark), c) if c == mark => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[' | '{') => open += 1,
            (None, ')' | ']' | '}') => open = open.saturating_sub(1),
            (None, _) => {}
        }
    }
    let mut end = end;
    let after = &source[end..];
    if quote.is_none() && text.ends_with(is_name) {
        end += after.find(|c| !is_name(c)).unwrap_or(after.len());
    }
    while open > 0 {
        let rest = &source[end..];
        let next = rest.trim_start();
        if !next.starts_with([')', ']', '}']) {
            break;
        }
        end += rest.len() - next.len() + 1;
        open -= 1;
    }
    end
}
