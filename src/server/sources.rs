//! The files and the key pairs that a running server puts into use when they change.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{anyhow, ensure};

use crate::cluster::KeyPairs;
use crate::pem::Validity;
use crate::policy_sources::{PolicySources, RawPolicies};
use crate::telemetry::{CERTIFICATE, POLICIES};
use fabric_engine::policy_set::{LoadError, PolicySet};
use fabric_policy::Policy;
use fabric_policy::work::Work;

use super::reload::{Source, record};
use super::state::AppState;
use super::tls::{ClientCa, TlsMaterial, TlsSettings, TlsSource};

/// The files with the key pair and the client CA.
pub(super) fn certificate_files(
    files: TlsSource,
    settings: Arc<TlsSettings>,
    state: Arc<AppState>,
) -> Source<TlsMaterial> {
    let apply = move |material: &TlsMaterial, _: &Work| {
        let validity = settings.change(|current| *current = material.clone())?;
        Ok(certificate_in_use(&state, validity))
    };
    Source { what: CERTIFICATE, read: Box::new(move || files.read(None)), apply: Box::new(apply) }
}

/// The file with the client CA, where the reconciler pushes key pairs.
pub(super) fn client_ca_file(path: PathBuf, settings: Arc<TlsSettings>) -> Source<ClientCa> {
    let apply = move |client_ca: &ClientCa, _: &Work| {
        settings.change(|current| current.client_ca = Some(client_ca.clone()))?;
        Ok("client CA".to_owned())
    };
    let read = move || ClientCa::read(&path);
    Source { what: CERTIFICATE, read: Box::new(read), apply: Box::new(apply) }
}

/// Puts each key pair into use that the reconciler pushes.
pub(super) async fn accept_key_pairs(
    mut key_pairs: KeyPairs,
    settings: Arc<TlsSettings>,
    state: Arc<AppState>,
) {
    while key_pairs.changed().await.is_ok() {
        let Some(key_pair) = key_pairs.borrow_and_update().clone() else { continue };
        let change = |current: &mut TlsMaterial| current.key_pair = (*key_pair).clone();
        let changed = settings.change(change);
        let result = changed.map(|validity| certificate_in_use(&state, validity));
        record(CERTIFICATE, &state, result.map_err(|error| format!("{error:#}")), None);
    }
}

/// Records a certificate in metrics and readiness; a line for the log.
pub(super) fn certificate_in_use(state: &AppState, validity: Validity) -> String {
    state.readiness.certificate(validity);
    let end = validity.not_after.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    state.metrics.certificate_expiry.set(end.as_secs_f64());
    format!("valid until {}", humantime::format_rfc3339_seconds(validity.not_after))
}

/// The files with policies and values.
pub(super) fn policy_files(policy_sources: PolicySources, state: Arc<AppState>) -> Source<RawPolicies> {
    let read = move || policy_sources.read();
    let apply = move |sources: &RawPolicies, work: &Work| use_policies(&state, compiled(sources, work)?);
    Source { what: POLICIES, read: Box::new(read), apply: Box::new(apply) }
}

/// Puts policies into use; their stamps.
fn use_policies(state: &AppState, policies: PolicySet) -> anyhow::Result<String> {
    // The policies in use decide about each pod, while the new ones could decide about none.
    let needs_nodes_now = policies.several_providers && !state.policies.load().several_providers;
    ensure!(
        !needs_nodes_now || state.nodes.load().nodes.is_some(),
        "the policies are of several providers, between which the nodes choose, but the nodes are not \
         known\nhint: see the check `nodes` for the reason, or keep the policies of one provider"
    );
    state.metrics.policies_in_use(&policies);
    let stamps = stamps(&policies);
    state.policies.store(Arc::new(policies));
    state.change.begins();
    Ok(stamps)
}

/// Compiles the policies of a server. Those of several providers need nodes that choose among them.
pub(crate) fn compiled(sources: &RawPolicies, work: &Work) -> anyhow::Result<PolicySet> {
    let hint = "hint: keep the policies of one provider, or let the nodes choose with `--watch-nodes`";
    sources.compile_within(work).map_err(|error| match error.downcast_ref() {
        Some(LoadError::DifferentProviders { .. }) => anyhow!("{error}\n{hint}"),
        _ => error,
    })
}

/// The stamps of the policies, for the log.
pub(super) fn stamps(policies: &PolicySet) -> String {
    let stamps: Vec<&str> = policies.policies().iter().map(Policy::stamp).collect();
    stamps.join(", ")
}
