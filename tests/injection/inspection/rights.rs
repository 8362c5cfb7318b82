//! What `check` says to a user who may not read every fact.

use fabric_tools::inspection::{Facts, Line, Status, Unread};

use super::{forbidden, healthy, lines};

/// A change of the facts.
type Change<'c> = &'c dyn Fn(&mut Facts);

#[test]
fn a_missing_right_costs_the_lines_that_need_it_and_is_named() {
    let cases: [(Change<'_>, &[&str]); 12] = [
        (&|facts| facts.advice = Err(forbidden()), &["advice"]),
        (&|facts| facts.token[0] = Err(forbidden()), &["token"]),
        (&|facts| facts.nodes = Err(forbidden()), &["nodes"]),
        (&|facts| facts.version = Err(forbidden()), &["kubernetes"]),
        (&|facts| facts.namespaces = Err(forbidden()), &["pod-security", "other-webhooks"]),
        (&|facts| facts.endpoints = Err(forbidden()), &["endpoints", "policies", "servers"]),
        (&|facts| facts.certificate = Err(forbidden()), &["certificate", "advice"]),
        (&|facts| facts.guard[1] = Err(forbidden()), &["guard"]),
        (
            &|facts| {
                for server in &mut facts.servers {
                    (server.ready, server.in_use) = (Err(forbidden()), Err(forbidden()));
                }
            },
            &["policies", "servers"],
        ),
        (&|facts| facts.workloads = Err(forbidden()), &["workloads", "not-injected", "objects"]),
        (&|facts| facts.events = Err(forbidden()), &["not-injected"]),
        (
            &|facts| facts.policies = Err(forbidden()),
            &[
                "conditions",
                "guard",
                "policies",
                "nodes",
                "installers",
                "pod-security",
                "workloads",
                "not-injected",
                "objects",
            ],
        ),
    ];
    for (fault, checks) in cases {
        let mut facts = healthy();
        fault(&mut facts);
        let warned: Vec<Line> = lines(&facts).into_iter().filter(|line| line.status != Status::Ok).collect();
        let names: Vec<&str> = warned.iter().map(|line| line.check).collect();
        assert_eq!(names, checks);
        assert!(warned.iter().all(|line| line.status == Status::Warn), "{warned:?}");
        assert!(warned.iter().any(|line| line.seen.contains("cannot list resource")), "{warned:?}");
    }
    let nothing = lines(&Facts { webhooks: Err(forbidden()), deployments: Err(forbidden()), ..healthy() });
    let failed: Vec<&Line> = nothing.iter().filter(|line| line.status == Status::Fail).collect();
    // A gate that checked nothing is not green.
    let [Line { check: "rights", seen, remedy, .. }] = &failed[..] else { panic!("{nothing:#?}") };
    assert!(
        seen == "2 of 20 checks were made" && remedy.contains("as a user who may read"),
        "{seen} {remedy}"
    );
}

/// A request that the API server did not answer costs the lines that a missing right costs, and none of them blames the
/// rights or what it would have read.
#[test]
fn a_request_without_an_answer_is_no_fault_of_what_it_asks_for() {
    let answers = [
        "no answer within 10s",
        "error trying to connect: tcp connect error: Connection refused (os error 111)",
        "invalid peer certificate: UnknownIssuer",
        "The provided continue parameter is too old to display a consistent list result",
        "etcdserver: request timed out",
    ];
    for (change, message) in UNREADABLE.iter().flat_map(|change| answers.map(|message| (change, message))) {
        let [of_right, of_answer] = [forbidden(), Unread::Unanswered(message.to_owned())].map(|error| {
            let mut facts = healthy();
            change(&mut facts, &error);
            lines(&facts).into_iter().filter(|line| line.status != Status::Ok).collect::<Vec<Line>>()
        });
        let checks = |lines: &[Line]| lines.iter().map(|line| line.check).collect::<Vec<_>>();
        assert_eq!(checks(&of_right), checks(&of_answer), "{message}");
        for line in of_answer.iter().filter(|line| line.check != "rights") {
            let is_about_it = line.seen.contains(message) && line.remedy.starts_with("run `check` again");
            let names_line = line.seen.contains("see the line `") && line.remedy.is_empty();
            assert!(line.status == Status::Warn && (is_about_it || names_line), "{line:?}");
        }
    }
}

/// Each fact that may not be read.
const UNREADABLE: [fn(&mut Facts, &Unread); 16] = [
    |facts, why| facts.version = Err(why.clone()),
    |facts, why| facts.webhooks = Err(why.clone()),
    |facts, why| facts.advice = Err(why.clone()),
    |facts, why| facts.deployments = Err(why.clone()),
    |facts, why| facts.namespaces = Err(why.clone()),
    |facts, why| (facts.endpoints, facts.servers) = (Err(why.clone()), Vec::new()),
    |facts, why| facts.certificate = Err(why.clone()),
    |facts, why| facts.policies = Err(why.clone()),
    |facts, why| facts.guard = [Err(why.clone()), Err(why.clone())],
    |facts, why| facts.token = [Err(why.clone()), Err(why.clone())],
    |facts, why| facts.workloads = Err(why.clone()),
    |facts, why| facts.dry_runs = Err(why.clone()),
    |facts, why| facts.daemon_sets = Err(why.clone()),
    |facts, why| facts.pods = Err(why.clone()),
    |facts, why| facts.events = Err(why.clone()),
    |facts, why| facts.nodes = Err(why.clone()),
];

#[test]
fn no_line_has_an_empty_name_whatever_may_not_be_read() {
    let all = (1_u32 << UNREADABLE.len()) - 1;
    for some in (0..=all).filter(|some| some.count_ones() <= 2 || *some == all) {
        let mut facts = healthy();
        let unreadable = UNREADABLE.iter().enumerate().filter(|(at, _)| some >> at & 1 == 1);
        unreadable.for_each(|(_, change)| change(&mut facts, &forbidden()));
        for line in lines(&facts) {
            let text = format!("{} {}", line.seen, line.remedy);
            let empty = ["``", "`/", "/`", "`-", "  ", "\"\"", "//"];
            // The message of the API server has the group of its core.
            let text = text.replace(" in API group \"\"", "");
            assert!(!empty.iter().any(|empty| text.contains(empty)), "{line:?}");
        }
    }
}
