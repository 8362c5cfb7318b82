//! What `check` says of each server that API servers call.

use fabric_tools::inspection::{Facts, Probe, Status, endpoints, inspect};
use serde_json::json;

use super::{endpoint_slice, healthy, list, reported, without};

#[test]
fn a_server_is_asked_once_however_many_addresses_it_has() {
    let both = endpoints(&list(&[endpoint_slice("10.0.0.1"), endpoint_slice("fd00::1")]));
    let found: Vec<_> = both.iter().map(|one| (one.name.as_str(), one.admin_port, one.is_ready)).collect();
    let servers = [("server-0", true), ("server-1", true), ("server-2", false)];
    assert_eq!(found, servers.map(|(name, is_ready)| (name, Some(8081), is_ready)));
    let mut ending = endpoint_slice("10.0.0.1");
    ending["endpoints"][2]["conditions"]["terminating"] = json!(true);
    assert_eq!(endpoints(&list(&[ending])).len(), 2);
    let bare = json!({"endpoints": [{"addresses": ["10.0.0.9"]}]});
    let found: Vec<_> = endpoints(&list(&[bare])).into_iter().map(|one| (one.name, one.admin_port)).collect();
    assert_eq!(found, [("10.0.0.9".to_owned(), None)]);
}

#[test]
fn every_server_has_to_answer_in_the_configured_mode() {
    use Status::{Fail, Ok as Passed, Warn};
    reported(
        "servers",
        Passed,
        "2 servers in the mode `inject`: certificate: valid; policies: 1 in use",
        &[],
        |_| (),
    );
    let other = "`server-1` is in the mode `audit`, and `inject` is configured\nduring an upgrade, wait";
    reported("servers", Fail, other, &[], |facts| {
        facts.servers[1].in_use.as_mut().unwrap()["mode"] = json!("audit");
    });
    reported("servers", Fail, "`server-0` does not answer: connection refused", &["policies"], |facts| {
        facts.servers[0].ready = Err("connection refused".into());
        facts.servers[0].in_use = Err("connection refused".into());
    });
    reported(
        "servers",
        Warn,
        "`server-0` does not report its mode: it runs an earlier version",
        &[],
        |facts| {
            facts.servers[0].in_use.as_mut().unwrap().as_object_mut().unwrap().remove("mode");
        },
    );
    // The mode that is configured is that of the Deployment.
    let audited = "`server-0` is in the mode `inject`, and `audit` is configured";
    reported("servers", Fail, audited, &[], |facts| {
        without(facts, "--mode");
        let deployment = &mut facts.deployments.as_mut().unwrap()["items"][0];
        let arguments = &mut deployment["spec"]["template"]["spec"]["containers"][0]["args"];
        arguments.as_array_mut().unwrap().push(json!("--mode=audit"));
        facts.servers[1].in_use.as_mut().unwrap()["mode"] = json!("audit");
    });
    let mut unknown = healthy();
    unknown.deployments = Err("unknown".into());
    for (audit, status) in [(false, Passed), (true, Fail)] {
        let lines = inspect(&unknown, None, &Probe { audit, ..Probe::default() });
        let line = lines.into_iter().find(|line| line.check == "servers").unwrap();
        assert_eq!(line.status, status, "{line:?}");
    }
}

#[test]
fn what_any_server_reports_is_reported_with_its_name() {
    use Status::{Fail, Warn};
    let reload = "`server-1` reports\n[!]policies: the last reload failed, the previous version is in use\ncorrect the file";
    reported("servers", Warn, reload, &[], |facts| {
        facts.servers[1].ready =
            Ok("[!]policies: the last reload failed, the previous version is in use\nready\n".to_owned());
    });
    // Pods get the fabric of the nodes that were known last, or none, for as long as that lasts.
    let stale = "[+]listener: accepting\n[!]nodes: the watch failed at 2026-11-24T09:12:07Z, the last 9 stay in use\n    refused\nready\n";
    let wanted = "`server-1` reports\n[!]nodes: the watch failed at 2026-11-24T09:12:07Z, the last 9 stay in use\n    refused\ncorrect what the lines name: without a list";
    reported("servers", Fail, wanted, &[], |facts| facts.servers[1].ready = Ok(stale.to_owned()));
    for failed in ["[!]nodes: none in use", "[!]resource-slices: the watch failed"] {
        reported("servers", Fail, &format!("`server-0` reports\n{failed}\n"), &[], |facts| {
            facts.servers[0].ready = Ok(format!("{failed}\nready\n"));
        });
    }
    // A missing right fails all watches of all servers.
    let watch = |name: &str| format!("[!]{name}: the watch failed\n    forbidden\n");
    let all: String = ["nodes", "resource-slices", "resource-claims", "device-classes"].map(watch).concat();
    let shown: String = ["nodes", "resource-slices", "resource-claims"].map(watch).concat();
    let wanted =
        format!("each of `server-0`, `server-1` reports\n{shown}and 1 more\ncorrect what the lines name");
    reported("servers", Fail, &wanted, &[], |facts| {
        facts.servers.iter_mut().for_each(|server| server.ready = Ok(format!("{all}ready\n")));
    });
    let events = "`server-0` reports\n[!]events: the last one cannot be created\n    forbidden\ncompare the ClusterRole";
    reported("servers", Warn, events, &[], |facts| {
        let told = "[!]events: the last one cannot be created\n    forbidden\nready\n";
        facts.servers[0].ready = Ok(told.to_owned());
    });
    // A tenant has too much. The pods of others get what they should.
    let full = "[!]claims: 1 namespace with too many resourceclaimtemplates, such as `full`: names decide about claims beyond the bound";
    let told = format!("`server-0` reports\n{full}\ndelete the objects");
    reported("servers", Warn, &told, &[], |facts| {
        facts.servers[0].ready = Ok(format!("[+]nodes: 9 in use\n{full}\nready\n"));
    });
    // A server that is not ready is asked, too, and its policies do not count.
    reported("servers", Fail, "`server-0` reports\n[-]nodes: none in use", &[], |facts| {
        facts.servers[0].is_ready = false;
        facts.servers[0].ready = Ok("[-]nodes: none in use\nnot ready\n".to_owned());
        facts.servers[0].in_use = Ok(json!({"mode": "inject", "policies": []}));
    });
    let skewed = "[-]certificate: not valid before 2026-11-24T09:12:07Z\nsynchronize the clocks of the nodes";
    reported("servers", Fail, skewed, &["policies"], |facts| {
        for server in &mut facts.servers {
            server.is_ready = false;
            server.ready =
                Ok("[-]certificate: not valid before 2026-11-24T09:12:07Z\nnot ready\n".to_owned());
        }
    });
}

#[test]
fn servers_with_other_policies_are_named_with_them() {
    let others = "\n`server-1` has in use: `aws-efa@old`\nafter a change";
    reported("policies", Status::Warn, others, &[], |facts| {
        facts.servers[1].in_use =
            Ok(json!({"mode": "inject", "policies": [{"name": "aws-efa", "digest": "old"}]}));
    });
    reported("policies", Status::Warn, "\n`server-0`, `server-1` have in use: none\n", &[], |facts| {
        for server in &mut facts.servers {
            server.in_use = Ok(json!({"mode": "inject", "policies": []}));
        }
    });
}

#[test]
fn without_a_ready_server_nobody_is_asked() {
    let empty = |facts: &mut Facts| {
        facts.endpoints = Ok(list(&[]));
        facts.servers.clear();
    };
    reported("endpoints", Status::Fail, "selects none of the ready", &["policies", "servers"], empty);
    let others = ["release", "policies", "servers"];
    reported("endpoints", Status::Fail, "has no ready replica", &others, |facts| {
        empty(facts);
        facts.deployments.as_mut().unwrap()["items"][0]["status"]["readyReplicas"] = json!(0);
    });
}
