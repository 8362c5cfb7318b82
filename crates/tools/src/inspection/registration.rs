//! The registration: webhook, certificate, conditions and guard.

use core::time::Duration;

use serde_json::Value;

use fabric_engine::registration::{
    ASKS, Condition, differing_condition, guard_conditions, webhook_conditions,
};
use fabric_yaml::counted;

use super::edited::{edited, edited_for_pods, edited_guard, other_selectors};
use super::namespaces::{in_scope, selects};
use super::release::{OTHER_VERSION, is_other_version, registered};
use super::{
    CLOCKS, Certificate, Finding, Found, Read, Seen, Status, fail, is_wrong, list, missing, name, names, ok,
    servers, text, unread, warn,
};

/// The remedy for an object that differs from the chart's.
const APPLY: &str = "apply the chart or the output of `fabric-injector manifests` again";
/// The remedy for an object that somebody edited. Helm 3 leaves a selector as it is where the chart has an empty one.
const RESTORE: &str = "apply the output of `helm get manifest` or of `fabric-injector manifests` with `kubectl apply \
                       --server-side --force-conflicts`: an upgrade by Helm may keep what it did not write";
/// The remedy for conditions, of which the chart knows those of another ConfigMap by its values.
const CONDITIONS: &str = "apply the chart or the output of `fabric-injector manifests` again; set `extraPoliciesTriggers` to what \
                          the policies of `extraPoliciesConfigMap`, if there are any, have in `match`";
/// What is seen where nothing restricts the account of the servers.
const OPEN: &str = "no ValidatingAdmissionPolicy keeps the account of the servers from changing every field of their webhook \
                    configurations";
/// The longest time before the expiry of a certificate that is reported.
const SOON: Duration = Duration::from_hours(7 * 24);

pub(super) fn webhook(seen: &Seen<'_>) -> Found {
    let all = seen.facts.webhooks.as_ref().map_err(unread)?;
    let Ok(webhook) = seen.webhook() else {
        return fail(
            "no MutatingWebhookConfiguration of this program is registered: no pod is injected",
            APPLY,
        );
    };
    let ours: Vec<&str> = registered(all).map(name).collect();
    if ours.len() > 1 {
        let several =
            format!("{} are registered, and the API server calls each for the same pods", names(ours));
        return fail(several, "uninstall all but one; `--name` chooses the one to check");
    }
    let Some((service, namespace)) = seen.release.service() else {
        let again = format!("delete it, and {APPLY}");
        return fail(format!("`{}` calls no Service", name(webhook)), again);
    };
    let policy = text(&webhook["webhooks"][0], "failurePolicy");
    if let Some(edited) = edited_for_pods(seen, &webhook["webhooks"][0]) {
        return fail(format!("`{}` is not as it was installed: {edited}", name(webhook)), RESTORE);
    }
    let calls =
        format!("`{}` calls the Service `{namespace}/{service}`, `failurePolicy: {policy}`", name(webhook));
    let others = other_selectors(&seen.facts.advice, &seen.facts.guard[0]);
    let left_out = only_selected(seen, &others, &webhook["webhooks"][0]);
    if left_out.is_empty() {
        return ok(calls);
    }
    let told = format!("{calls}, and its `namespaceSelector` leaves out pods of {}", names(&left_out));
    if in_scope(seen)?.all(|one| seen.release.namespace() == Some(name(one))) {
        return fail(format!("{told}: no namespace is left"), RESTORE);
    }
    warn(told, format!("nothing, if a cloud's own namespaces are left out, as AKS does; else {RESTORE}"))
}

/// The namespaces that any of these selects, and the last one does not.
fn only_selected<'f>(seen: &Seen<'f>, any: &[&Value], last: &Value) -> Vec<&'f str> {
    let all = seen.facts.namespaces.iter().flat_map(|all| list(all, "items"));
    let selected = |one: &&Value| any.iter().any(|other| selects(other, one));
    let missed = all.filter(selected).filter(|one| !selects(last, one));
    let servers = seen.release.namespace();
    missed.map(name).filter(|name| Some(*name) != servers).collect()
}

pub(super) fn endpoints(seen: &Seen<'_>) -> Found {
    let (service, namespace) = seen.service()?;
    let slices = seen.facts.endpoints.as_ref().map_err(unread)?;
    let all = servers::endpoints(slices);
    match all.iter().filter(|endpoint| endpoint.is_ready).count() {
        0 if all.is_empty() && servers::are_ready(seen) => fail(
            format!("the Service `{namespace}/{service}` selects none of the ready replicas"),
            format!("compare its selector with the labels of the pods of the Deployment, and {APPLY}"),
        ),
        0 => fail(
            format!("the Service `{namespace}/{service}` has no ready replica"),
            "start a replica, or see why none is ready: the lines `release` and `servers` have the reason",
        ),
        ready => ok(format!("the Service `{namespace}/{service}` has {}", counted(ready, "ready endpoint"))),
    }
}

pub(super) fn certificate(seen: &Seen<'_>) -> Found {
    let webhook = seen.webhook()?;
    let is_empty = |entry: &Value| text(&entry["clientConfig"], "caBundle").is_empty();
    if list(webhook, "webhooks").any(is_empty) {
        let empty =
            format!("`caBundle` of `{}` is empty, so that API servers trust no replica", name(webhook));
        return fail(empty, source(seen, webhook));
    }
    let unknown = || missing(&seen.facts.deployments, "the Secret of the certificate", "release");
    seen.release.secret().ok_or_else(unknown)?;
    let Certificate { secret, accepted, expires, left, duration, .. } = match &seen.facts.certificate {
        Err(error) if is_wrong(error) => return fail(error.to_string(), source(seen, webhook)),
        read => read.as_ref().map_err(unread)?,
    };
    if let Err(error) = accepted {
        let refused = format!(
            "API servers do not accept the certificate of the Secret `{secret}` with `caBundle` of `{}`: {error}",
            name(webhook)
        );
        return fail(refused, trust(seen, webhook, error));
    }
    let days = left.as_secs() / (24 * 60 * 60);
    let valid = format!(
        "the certificate of the Secret `{secret}` is one of `caBundle`, and valid until {expires} ({days} days)"
    );
    if *left < SOON.min(*duration / 4) { warn(valid, source(seen, webhook)) } else { ok(valid) }
}

/// The remedy for a certificate that API servers do not accept.
fn trust(seen: &Seen<'_>, webhook: &Value, error: &str) -> &'static str {
    if error.contains("not valid yet") { CLOCKS } else { source(seen, webhook) }
}

/// The remedy for a certificate, by its source.
fn source(seen: &Seen<'_>, webhook: &Value) -> &'static str {
    if seen.release.option("--manage-webhook").next().is_some() {
        "the replicas renew it and write `caBundle`: see their log for errors"
    } else if webhook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"].is_string() {
        "cert-manager renews it and writes `caBundle`: see `kubectl describe certificate`"
    } else {
        "set `tls.caBundle` to the CA that signed the certificate in the Secret, and renew the certificate if it ends soon"
    }
}

pub(super) fn conditions(seen: &Seen<'_>) -> Found {
    let webhook = seen.webhook()?;
    if !list(&webhook["webhooks"][0], "matchConditions").any(|condition| condition["name"] == ASKS) {
        let open = format!("`{}` has no condition `{ASKS}`: all pods depend on the webhook", name(webhook));
        return fail(open, APPLY);
    }
    let wanted = webhook_conditions(seen.policies()?);
    let found = in_step(seen, webhook, &wanted)?;
    let is_added = |condition: &&Value| wanted.iter().all(|one| condition["name"] != one.name);
    let added: Vec<&str> = list(&webhook["webhooks"][0], "matchConditions")
        .filter(is_added)
        .map(|condition| text(condition, "name"))
        .collect();
    if found.0 != Status::Ok || added.is_empty() {
        return Ok(found);
    }
    warn(
        format!("`{}` also has {}: pods that do not meet it are not injected", name(webhook), names(added)),
        "if nobody wants this condition, remove it with `kubectl edit`: neither Helm nor `kubectl apply` does",
    )
}

/// Compares the conditions of an object with those of the policies. Another version may write them in another form.
fn in_step(seen: &Seen<'_>, object: &Value, wanted: &[Condition]) -> Found {
    match differing_condition(object, wanted) {
        Some(condition) if is_other_version(seen) => warn(
            format!("the condition `{condition}` of `{}` is not that of this version", name(object)),
            OTHER_VERSION,
        ),
        None => ok(format!("the conditions of `{}` are those of the policies", name(object))),
        Some(condition) => fail(
            format!("the condition `{condition}` of `{}` is not that of the policies", name(object)),
            CONDITIONS,
        ),
    }
}

/// Whether API servers can call the webhook for advice on workloads. A call that fails costs only the advice.
pub(super) fn advice(seen: &Seen<'_>) -> Found {
    let webhook = seen.webhook()?;
    let advice = seen.facts.advice.as_ref().map_err(unread)?;
    if advice.is_null() {
        return match seen.release.option("--manage-advice").next() {
            Some(wanted) => warn(
                format!(
                    "there is no ValidatingWebhookConfiguration `{wanted}`: workloads get no advice, and policies no review"
                ),
                APPLY,
            ),
            None => ok("no webhook for advice on workloads or for policies is registered"),
        };
    }
    for entry in list(advice, "webhooks") {
        if let Some(edited) = edited(seen, entry) {
            return warn(format!("`{}` is not as it was installed: {edited}", text(entry, "name")), RESTORE);
        }
    }
    match &seen.facts.certificate.as_ref().map_err(unread)?.accepted_for_advice {
        Ok(()) => ok(format!("API servers accept the certificate for {}, too", webhooks(advice))),
        Err(error) => {
            let refused = format!(
                "API servers do not accept the certificate with `caBundle` of the ValidatingWebhookConfiguration, \
                 for {}: {error}",
                webhooks(advice)
            );
            warn(refused, trust(seen, webhook, error))
        }
    }
}

/// The names of the webhooks of a configuration.
fn webhooks(configuration: &Value) -> String {
    let names = list(configuration, "webhooks").map(|webhook| format!("`{}`", text(webhook, "name")));
    names.collect::<Vec<_>>().join(" and ")
}

pub(super) fn guard(seen: &Seen<'_>) -> Found {
    let in_audit_mode = seen.release.option("--mode").any(|mode| mode == "audit");
    match in_effect(seen, &seen.facts.guard, "guard")? {
        Some([_, binding])
            if !list(&binding["spec"], "validationActions").any(|one| one == "Warn" || one == "Deny") =>
        {
            warn("the guard neither warns nor denies: its binding has no `Warn` and no `Deny`", RESTORE)
        }
        Some([policy, binding]) => {
            if let Some(other) = edited_guard(seen, policy) {
                return warn(format!("the guard is not as it was installed: {other}"), RESTORE);
            }
            if let Some(other) = edited_guard(seen, binding) {
                let told = format!("the binding of the guard is not as it was installed: {other}");
                return warn(told, format!("delete the binding, and {APPLY}"));
            }
            let of_webhook: Vec<&Value> =
                seen.webhook().iter().map(|webhook| &webhook["webhooks"][0]).collect();
            let left_out = only_selected(seen, &of_webhook, &policy["spec"]["matchConstraints"]);
            if !left_out.is_empty() {
                let told =
                    format!("the `namespaceSelector` of the guard leaves out pods of {}", names(left_out));
                return warn(told, RESTORE);
            }
            in_step(seen, policy, &guard_conditions(seen.policies()?))
        }
        None if in_audit_mode => ok("none, because the servers are in audit mode"),
        None => warn(
            "there is none: nothing reports pods that were not injected",
            format!("if `guard.enabled` is not `false`, it was deleted: {APPLY}"),
        ),
    }
}

/// Looks for the policy that lets the account of the servers change `caBundle` only.
pub(super) fn token(seen: &Seen<'_>) -> Found {
    seen.deployment()?;
    if seen.release.option("--manage-webhook").next().is_none() {
        return ok("the servers manage no certificate, and may change no object");
    }
    match in_effect(seen, &seen.facts.token, "token")? {
        Some([policy, binding])
            if policy["spec"]["failurePolicy"] == "Fail"
                && list(&binding["spec"], "validationActions").any(|action| action == "Deny") =>
        {
            ok(format!("`{}` lets the servers change `caBundle` only", name(policy)))
        }
        Some(_) => fail(OPEN, APPLY),
        None => warn(OPEN, APPLY),
    }
}

/// A ValidatingAdmissionPolicy of the installation and its binding, if there are any.
fn in_effect<'f>(
    seen: &Seen<'f>,
    [policy, binding]: &'f [Read; 2],
    suffix: &str,
) -> Result<Option<[&'f Value; 2]>, Finding> {
    let unknown = || missing(&seen.facts.webhooks, "the installation", "webhook");
    let wanted = format!("{}-{suffix}", seen.release.name().ok_or_else(unknown)?);
    let (policy, binding) = (policy.as_ref().map_err(unread)?, binding.as_ref().map_err(unread)?);
    let problem = match (policy.is_null(), binding.is_null()) {
        (true, true) => return Ok(None),
        (true, false) => format!("there is no ValidatingAdmissionPolicy `{wanted}`"),
        (false, true) => format!("`{wanted}` has no binding, and therefore no effect"),
        _ if binding["spec"]["policyName"] != wanted => {
            format!("the binding `{wanted}` is of the policy {}", binding["spec"]["policyName"])
        }
        _ => return Ok(Some([policy, binding])),
    };
    Err((Status::Fail, problem, APPLY.to_owned()))
}
