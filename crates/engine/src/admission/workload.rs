//! Reviews of workloads, which are always allowed unchanged.

use serde::Deserialize;

use super::ReviewOutcome;
use super::answer::{Answer, Record, Verdict, named, text, unsupported};
use super::response::{Mode, Response, within_limits};
use super::review::{self, AdmissionRequest, BadReview};

/// A review of a workload.
#[derive(Debug)]
pub struct WorkloadReview<O> {
    version: String,
    request: AdmissionRequest<O>,
}

impl<'b, O: Deserialize<'b>> WorkloadReview<O> {
    /// Reads a review, whose object is read as `O`.
    pub fn read(body: &'b [u8]) -> Result<Self, BadReview> {
        let (version, request) = review::parse(text(body)?)?;
        Ok(Self { version, request })
    }

    pub fn take_object(&mut self) -> Option<O> {
        self.request.object.take()
    }

    pub fn namespace(&self) -> Option<&str> {
        self.request.namespace.as_deref().filter(|namespace| !namespace.is_empty())
    }

    /// The answer with these warnings, if any. `codes` are the codes of the findings that require action. A review that was
    /// not evaluated has a `reason`.
    pub fn answer(
        self,
        reason: Option<&'static str>,
        warnings: Vec<String>,
        codes: Vec<String>,
        mode: Mode,
    ) -> Answer {
        let response = Response { warnings: within_limits(warnings), ..Response::allow(&self.request.uid) };
        self.with(response, reason, codes, mode)
    }

    /// The answer that refuses the object, with a line for each reason.
    pub fn refuse(self, reasons: &[String], codes: Vec<String>) -> Answer {
        let response = Response::invalid(&self.request.uid, reasons);
        self.with(response, None, codes, Mode::Inject)
    }

    fn with(
        self,
        mut response: Response,
        reason: Option<&'static str>,
        codes: Vec<String>,
        mode: Mode,
    ) -> Answer {
        let Self { version, request } = self;
        let is_silent = response.allowed && response.warnings.is_empty();
        let outcome = if is_silent { ReviewOutcome::Unadvised } else { ReviewOutcome::Advised };
        let verdict = unsupported(&version, &request).unwrap_or_else(|| {
            if !codes.is_empty() {
                response.audit_annotations.insert("warnings", codes.join(","));
            }
            let name = named(request.name.as_deref()).unwrap_or_default();
            let record = Record {
                name: named(Some(&format!("{}/{name}", request.kind.kind))),
                warnings: codes,
                ..Record::new(&request, &response, outcome, reason)
            };
            Verdict { response, record }
        });
        verdict.in_mode(mode, &version)
    }

    /// The answer to a review that was not evaluated.
    pub fn unadvised(self, reason: &'static str, mode: Mode) -> Answer {
        self.answer(Some(reason), Vec::new(), Vec::new(), mode)
    }
}
