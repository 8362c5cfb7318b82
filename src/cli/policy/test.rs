//! `fabric-injector policy test`: runs the cases of policies.

mod files;
mod output;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::builtin;
use crate::files::replace;
use fabric_tools::policy_test::{self, Coverage, Difference, Kind, Seen};
use fabric_yaml::{Comment, Edited};

use super::super::ExitStatus;
use super::super::output::Output;
use super::super::parallel;
use super::formats;

use files::{LoadedFile, Tests};

/// Run the cases of policies, and compare the results with the expectations
#[derive(Debug, Args)]
#[command(after_long_help = "Exit status: 0 all cases pass; 1 a case fails, a file is not used, or \
    coverage that is required is missing; 2 bad usage, or a file of cases or a policy that cannot be read.")]
pub(super) struct Arguments {
    /// A folder of policies with a folder `tests`, a folder of cases, or a file of cases
    #[arg(value_name = "DIR|FILE", default_value = ".")]
    paths: Vec<String>,
    /// Run only the cases with this text in their file and name
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// The form of the results
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text")]
    output: Format,
    /// Write the actual codes, patches and objects into the cases that declare them. `has` and `lacks` stay
    #[arg(long)]
    update: bool,
    /// Print the rules, conditions and values of `machines` that the cases do not cover
    #[arg(long)]
    coverage: bool,
    /// Fail unless the cases see each rule applied and not applied, each condition true and false, and each value of
    /// `machines`
    #[arg(
        long,
        value_enum,
        value_name = "OF",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        conflicts_with = "filter"
    )]
    require_coverage: Option<Required>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One line for each case, and the differences of those that fail
    Text,
    /// One JSON object
    Json,
    /// XML that CI systems read as results of tests
    Junit,
    /// SARIF 2.1.0 with the cases that fail, for code scanning
    Sarif,
    /// Workflow commands of GitHub Actions for the cases that fail
    Github,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Required {
    /// Rules, conditions and the values of `machines`
    All,
    /// Rules and conditions
    Conditions,
    /// Rules only
    Rules,
}

/// The results of all cases.
struct Report<'a> {
    cases: Vec<CaseReport<'a>>,
    /// Files that no case uses.
    unused: Vec<String>,
    coverage: Coverage,
}

/// The result of one case.
struct CaseReport<'a> {
    file: &'a str,
    line: usize,
    name: &'a str,
    differences: Vec<Difference>,
    time: Duration,
}

impl Report<'_> {
    fn failing(&self) -> impl Iterator<Item = &CaseReport<'_>> {
        self.cases.iter().filter(|case| !case.differences.is_empty())
    }

    /// The parts that the cases do not cover: the policy, its file, and the part.
    fn unseen(&self) -> impl Iterator<Item = (&str, &str, &Seen)> {
        self.coverage.policies().flat_map(|(policy, file, seen)| {
            seen.iter().filter(|seen| !seen.is_complete()).map(move |seen| (policy, file, seen))
        })
    }
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let mut tests = files::load(&arguments.paths)?;
    let mut results = run_all(&tests, arguments)?;
    if arguments.update && update(&mut tests, &results, output)? {
        results = run_all(&tests, arguments)?;
    }
    let mut report = Report {
        cases: Vec::new(),
        unused: if arguments.filter.is_none() { tests.unused.clone() } else { Vec::new() },
        coverage: results.coverage,
    };
    for (file, results) in tests.files.iter().zip(results.of_files) {
        for (case, result) in file.cases.cases.iter().zip(results) {
            if let Some((result, time)) = result {
                report.cases.push(CaseReport {
                    file: &file.cases.file,
                    line: case.span.line,
                    name: &case.name,
                    differences: result.differences,
                    time,
                });
            }
        }
    }
    if let (Some(filter), true) = (&arguments.filter, report.cases.is_empty()) {
        anyhow::bail!("no case has `{filter}` in its file and name");
    }
    if arguments.update {
        for CaseReport { file, line, name, .. } in report.failing() {
            output.message(&format!(
                "not updated: {file}:{line}: {name}: edit `has`, `lacks` and what is expected of several pods yourself"
            ));
        }
    }
    let required = |seen: &Seen| match arguments.require_coverage {
        Some(Required::All) => true,
        Some(Required::Conditions) => seen.kind != Kind::Row,
        Some(Required::Rules) => seen.kind == Kind::Rule,
        None => false,
    };
    let lacking: Vec<_> = report.unseen().filter(|(_, _, seen)| required(seen)).collect();
    let lacks_coverage = !lacking.is_empty();
    let text = match arguments.output {
        Format::Text => output::text(&report, arguments.coverage || arguments.require_coverage.is_some()),
        Format::Json => output::json(&report),
        Format::Junit => output::junit(&report, &lacking),
        Format::Sarif => formats::sarif(&output::failures(&report, &lacking)),
        Format::Github => output::failures(&report, &lacking).iter().map(formats::command).collect(),
    };
    output.text(&text)?;
    if lacks_coverage {
        output.message("error: the cases do not cover the policies; the table shows what is missing");
    }
    let passed = report.failing().next().is_none() && report.unused.is_empty() && !lacks_coverage;
    Ok(if passed { ExitStatus::Done } else { ExitStatus::Refused })
}

/// The results of the cases of a file and their times; `None` for those that the filter leaves out.
type OfFile = Vec<Option<(policy_test::CaseResult, Duration)>>;

struct Results {
    of_files: Vec<OfFile>,
    coverage: Coverage,
}

/// Runs the cases of several files at the same time.
fn run_all(tests: &Tests, arguments: &Arguments) -> anyhow::Result<Results> {
    let filter = arguments.filter.as_deref();
    let of_each = parallel::map(&tests.files, 1, |file| run_file(file, filter));
    let mut results = Results { of_files: Vec::new(), coverage: Coverage::default() };
    for result in of_each {
        let (of_file, coverage) = result?;
        results.of_files.push(of_file);
        results.coverage.extend(coverage);
    }
    if filter.is_none() {
        for definition in files::definitions_of(&tests.policies)? {
            results.coverage.add(&definition);
        }
    }
    Ok(results)
}

fn run_file(file: &LoadedFile, filter: Option<&str>) -> anyhow::Result<(OfFile, Coverage)> {
    let mut coverage = Coverage::default();
    let mut sets = files::PolicySets::default();
    let mut results = Vec::new();
    for case in &file.cases.cases {
        let is_wanted =
            filter.is_none_or(|text| format!("{}: {}", file.cases.file, case.name).contains(text));
        results.push(if is_wanted {
            let started = Instant::now();
            let policies = sets.get_or_load(file, case)?;
            let result = policy_test::run(case, &policies, file.documents(case)?, &mut coverage);
            Some((result, started.elapsed()))
        } else {
            None
        });
    }
    // Those who write a policy leave the cases of a built-in one to its own tests.
    let references = || file.cases.cases.iter().flat_map(|case| &case.policies);
    coverage.leave_out(|policy| {
        builtin::find(policy).is_some() && references().any(|reference| reference.text == policy)
    });
    Ok((results, coverage))
}

/// Rewrites the files whose cases fail. Returns whether one changed.
fn update(tests: &mut Tests, results: &Results, output: &mut Output) -> anyhow::Result<bool> {
    let mut changed = false;
    for (file, results) in tests.files.iter_mut().zip(&results.of_files) {
        let results: Vec<_> =
            results.iter().map(|result| result.as_ref().map(|(result, _)| result)).collect();
        let Some(Edited { text, lost }) = policy_test::updated(&file.cases, &results) else { continue };
        let name = file.cases.file.clone();
        let before = file.cases.text.as_bytes();
        replace(Path::new(&name), file.folder.as_deref(), before, text.as_bytes())
            .with_context(|| format!("{name} cannot be written"))?;
        output.message(&format!("updated {name}"));
        for Comment { line, text } in lost {
            output.message(&format!("warning: {name}: line {line}: the comment `{text}` is not kept"));
        }
        *file = LoadedFile::read(&name, &text, file.folder.take())?;
        changed = true;
    }
    Ok(changed)
}
