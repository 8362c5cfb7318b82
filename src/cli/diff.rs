//! A unified diff of a file, written while its documents are read.
//!
//! The unified diffs of `similar` take both texts as a whole, and their time grows with the product of the length and the
//! number of changes: a stream of many pods would take it squared. Here, `similar` compares each document by itself.

use std::collections::VecDeque;

use anstyle::{AnsiColor, Style};
use similar::{Algorithm, ChangeTag, DiffOp, capture_diff_slices};

mod names;

pub(super) use names::Names;

/// The number of equal lines around a change.
const CONTEXT: usize = 3;

/// The diff of one file, for `patch -p1` and `git apply`.
#[derive(Debug, Default)]
pub(super) struct FileDiff {
    /// The path below the folder in which the diff applies.
    name: Vec<u8>,
    colour: bool,
    /// The number of lines so far, before and after the change.
    old_lines: usize,
    new_lines: usize,
    /// The last equal lines before the next hunk.
    before: VecDeque<Vec<u8>>,
    hunk: Option<Hunk>,
    /// Documents that end within a line, which the next document continues.
    unfinished: (Vec<u8>, Vec<u8>),
    headed: bool,
    out: Vec<u8>,
}

#[derive(Debug)]
struct Hunk {
    /// The number of lines before it, before and after the change.
    old: usize,
    new: usize,
    lines: Vec<(ChangeTag, Vec<u8>)>,
}

impl FileDiff {
    pub(super) fn new(name: Vec<u8>, colour: bool) -> Self {
        Self { name, colour, ..Self::default() }
    }

    /// Adds the next document, and returns the part of the diff that is complete.
    pub(super) fn document(&mut self, old: &[u8], new: &[u8]) -> Vec<u8> {
        self.unfinished.0.extend_from_slice(old);
        self.unfinished.1.extend_from_slice(new);
        if old.ends_with(b"\n") {
            self.compare();
        }
        std::mem::take(&mut self.out)
    }

    /// Skips lines that could not be read, up to the line with this number, counted from 1.
    pub(super) fn skip_to(&mut self, line: usize) {
        let open = self.unfinished.0.iter().filter(|byte| **byte == b'\n').count();
        let Some(skipped @ 1..) = (line - 1).checked_sub(self.old_lines + open) else { return };
        self.compare();
        self.close_hunk();
        self.before.clear();
        self.old_lines += skipped;
        self.new_lines += skipped;
    }

    /// The rest of the diff.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        self.compare();
        self.close_hunk();
        std::mem::take(&mut self.out)
    }

    fn compare(&mut self) {
        let (old, new) = std::mem::take(&mut self.unfinished);
        let old_lines: Vec<&[u8]> = old.split_inclusive(|byte| *byte == b'\n').collect();
        if old == new {
            return old_lines.iter().for_each(|line| self.line(ChangeTag::Equal, line));
        }
        let new_lines: Vec<&[u8]> = new.split_inclusive(|byte| *byte == b'\n').collect();
        for operation in capture_diff_slices(Algorithm::Myers, &old_lines, &new_lines) {
            let (deleted, inserted) = (operation.old_range(), operation.new_range());
            if matches!(operation, DiffOp::Equal { .. }) {
                old_lines[deleted].iter().for_each(|line| self.line(ChangeTag::Equal, line));
            } else {
                old_lines[deleted].iter().for_each(|line| self.line(ChangeTag::Delete, line));
                new_lines[inserted].iter().for_each(|line| self.line(ChangeTag::Insert, line));
            }
        }
    }

    fn line(&mut self, tag: ChangeTag, line: &[u8]) {
        if self.hunk.is_none() && tag == ChangeTag::Equal {
            if self.before.len() == CONTEXT {
                self.before.pop_front();
            }
            self.before.push_back(line.to_vec());
        } else {
            let hunk = self.hunk.get_or_insert_with(|| Hunk {
                old: self.old_lines - self.before.len(),
                new: self.new_lines - self.before.len(),
                lines: self.before.drain(..).map(|line| (ChangeTag::Equal, line)).collect(),
            });
            hunk.lines.push((tag, line.to_vec()));
        }
        self.old_lines += usize::from(tag != ChangeTag::Insert);
        self.new_lines += usize::from(tag != ChangeTag::Delete);
        // One more than the context of this hunk and that of the next one.
        if self.hunk.as_ref().is_some_and(|hunk| hunk.equal_at_end() > 2 * CONTEXT) {
            self.close_hunk();
        }
    }

    /// Writes the hunk without the equal lines that are not its context.
    fn close_hunk(&mut self) {
        let Some(mut hunk) = self.hunk.take() else { return };
        let surplus = hunk.equal_at_end().saturating_sub(CONTEXT);
        let rest = hunk.lines.split_off(hunk.lines.len() - surplus);
        let kept = rest.len().saturating_sub(CONTEXT);
        self.before = rest.into_iter().skip(kept).map(|(_, line)| line).collect();
        self.head();
        let without = |other: ChangeTag| hunk.lines.iter().filter(|(tag, _)| *tag != other).count();
        let old = range(hunk.old, without(ChangeTag::Insert));
        let new = range(hunk.new, without(ChangeTag::Delete));
        self.out.extend_from_slice(format!("@@ -{old} +{new} @@\n").as_bytes());
        for (tag, line) in &hunk.lines {
            self.write(*tag, line);
        }
    }

    fn head(&mut self) {
        if std::mem::replace(&mut self.headed, true) {
            return;
        }
        let bold = if self.colour { Style::new().bold() } else { Style::new() };
        for (mark, side) in [("---", "a"), ("+++", "b")] {
            self.out.extend_from_slice(format!("{bold}{mark} ").as_bytes());
            self.out.extend(names::quoted(&[side.as_bytes(), b"/", self.name.as_slice()].concat()));
            self.out.extend_from_slice(format!("{bold:#}\n").as_bytes());
        }
    }

    fn write(&mut self, tag: ChangeTag, line: &[u8]) {
        let style = match tag {
            ChangeTag::Insert if self.colour => Style::new().fg_color(Some(AnsiColor::Green.into())),
            ChangeTag::Delete if self.colour => Style::new().fg_color(Some(AnsiColor::Red.into())),
            _ => Style::new(),
        };
        self.out.extend_from_slice(format!("{style}{tag}").as_bytes());
        self.out.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        self.out.extend_from_slice(format!("{style:#}\n").as_bytes());
        if !line.ends_with(b"\n") {
            self.out.extend_from_slice(b"\\ No newline at end of file\n");
        }
    }
}

impl Hunk {
    /// The number of equal lines at the end.
    fn equal_at_end(&self) -> usize {
        self.lines.iter().rev().take_while(|(tag, _)| *tag == ChangeTag::Equal).count()
    }
}

/// The first line of a part and the number of lines. Without lines, the line before it.
fn range(before: usize, length: usize) -> String {
    let first = before + usize::from(length > 0);
    if length == 1 { first.to_string() } else { format!("{first},{length}") }
}
