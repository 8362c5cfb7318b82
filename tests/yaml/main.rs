//! Compares what this program reads from YAML with what kubectl reads.
//!
//! Streams are generated from a seed. Of each one, this program reads the values that kubectl reads, or refuses it with a
//! place, and after an edit kubectl reads the values that the stream should have then.
//!
//! ```console
//! $ FABRIC_STREAMS=200000 cargo test --release --test yaml
//! ```
//!
//! `FABRIC_SEED` begins with another seed. kubectl's reader is a Go program (`tests/control-plane/read-yaml`) that Go
//! builds; without Go, the test is ignored.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]
#![allow(clippy::print_stderr, reason = "the tally is shown")]

mod classes;
mod comparison;
mod documents;
#[path = "../control-plane/programs.rs"]
#[allow(dead_code, reason = "only `required` is used")]
mod programs;
mod reader;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use comparison::{Reading, all_same, kind};
use documents::Documents;
use reader::Reader;

/// As many streams are compared at once.
const BATCH: usize = 5_000;
/// As many streams are shown of each class that should not be.
const SHOWN: usize = 3;

fn main() -> ExitCode {
    let compared = Trial::ignorable_test("streams_are_read_and_edited_as_kubectl_reads_them", || {
        match Reader::build(Path::new(env!("CARGO_MANIFEST_DIR")), Path::new(env!("CARGO_TARGET_TMPDIR"))) {
            Ok(reader) => compare(&reader).map(|()| Completion::Completed),
            Err(why) if programs::required() => Err(Failed::from(why)),
            Err(why) => Ok(Completion::ignored_with(why)),
        }
    });
    libtest_mimic::run(&Arguments::from_args(), vec![compared]).exit_code()
}

fn number(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect(variable))
}

const UNPROVEN: &str = "refused: perhaps text after the end of a document";

/// How often something happened, and where.
#[derive(Default)]
struct Tally(BTreeMap<String, (usize, Vec<String>)>);

impl Tally {
    fn times(&self, class: &str) -> usize {
        self.0.get(class).map_or(0, |(times, _)| *times)
    }

    fn add(&mut self, class: impl Into<String>, shown: String) {
        let (times, all) = self.0.entry(class.into()).or_default();
        *times += 1;
        all.push(shown);
        all.sort_by_key(String::len);
        all.truncate(SHOWN);
    }
}

fn compare(reader: &Reader) -> Result<(), Failed> {
    let streams = number("FABRIC_STREAMS", 50_000);
    let seed = number("FABRIC_SEED", 1);
    let mut documents = Documents::new(seed as u64, Path::new(env!("CARGO_MANIFEST_DIR")));
    let (mut known, mut wrong) = (Tally::default(), Tally::default());
    for start in (0..streams).step_by(BATCH) {
        let batch: Vec<String> = (start..streams.min(start + BATCH)).map(|_| documents.next()).collect();
        compare_batch(reader, &batch, &mut known, &mut wrong);
    }
    for (class, (times, _)) in &known.0 {
        eprintln!("{times:8} {class}");
    }
    let shown = |(class, (times, examples)): (String, (usize, Vec<String>))| {
        format!("{times} times: {class}\n{}\n", examples.join("\n"))
    };
    let wrong: Vec<String> = wrong.0.into_iter().map(shown).collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Failed::from(format!("FABRIC_SEED={seed}\n{}", wrong.join("\n"))))
    }
}

fn compare_batch(reader: &Reader, streams: &[String], known: &mut Tally, wrong: &mut Tally) {
    let ours: Vec<Reading> = streams.iter().map(|stream| Reading::of(stream)).collect();
    let theirs = reader.read(streams.iter().map(String::as_str));
    let (mut edited, mut cut) = (Vec::new(), Vec::new());
    for ((stream, ours), theirs) in streams.iter().zip(&ours).zip(&theirs) {
        match (&ours.values, theirs) {
            (Ok(values), Ok(expected)) if all_same(values, expected) => {
                known.add("same", String::new());
                edited.extend(ours.edited.as_ref().map(|edited| (stream, edited)));
            }
            (Ok(values), Ok(expected)) => {
                wrong.add("read differently", format!("{stream:?}\n  as {values:?}\n  not {expected:?}"));
            }
            (Err(_), Err(_)) => known.add("refused by both", String::new()),
            (Err(error), Ok(expected)) => match classes::refused(&kind(error)) {
                Some(class) => known.add(format!("refused: {class}"), String::new()),
                None => match classes::before(stream, error) {
                    Some(before) => cut.push((stream, before, expected, error)),
                    None => wrong.add(format!("refused: {}", kind(error)), format!("{stream:?}\n  {error}")),
                },
            },
            (Ok(_), Err(error)) => match classes::accepted(error) {
                Some(class) => known.add(format!("accepted: {class}"), String::new()),
                None => wrong.add(format!("accepted: {}", kind(error)), format!("{stream:?}\n  {error}")),
            },
        }
    }
    let theirs = reader.read(cut.iter().map(|(_, before, ..)| *before));
    for ((stream, _, expected, error), before) in cut.iter().zip(theirs) {
        match before {
            Ok(before) if expected.len() >= before.len() && all_same(&before, &expected[..before.len()]) => {
                known.add(classes::AFTER_THE_END, String::new());
            }
            // Of a few streams, kubectl refuses the part, such as that which it takes for JSON.
            Err(_) if known.times(UNPROVEN) < known.times(classes::AFTER_THE_END) / 200 + 3 => {
                known.add(UNPROVEN, String::new());
            }
            _ => wrong.add(format!("refused: {}", kind(error)), format!("{stream:?}\n  {error}")),
        }
    }
    let theirs = reader.read(edited.iter().map(|(_, (text, _))| text.as_str()));
    for ((stream, (text, wanted)), theirs) in edited.iter().zip(&theirs) {
        match theirs {
            Ok(values) if all_same(wanted, values) => known.add("the same after an edit", String::new()),
            other => {
                let shown = format!("{stream:?}\n  became {text:?}\n  of {wanted:?}\n  is {other:?}");
                wrong.add("another value after an edit", shown);
            }
        }
    }
}
