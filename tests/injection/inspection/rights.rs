//! What `check` says to a user who may not read every fact.

use fabric_tools::inspection::{Facts, Line, Status};

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

/// Each fact that may not be read.
const UNREADABLE: [fn(&mut Facts); 13] = [
    |facts| facts.version = Err(forbidden()),
    |facts| facts.webhooks = Err(forbidden()),
    |facts| facts.advice = Err(forbidden()),
    |facts| facts.deployments = Err(forbidden()),
    |facts| facts.namespaces = Err(forbidden()),
    |facts| (facts.endpoints, facts.servers) = (Err(forbidden()), Vec::new()),
    |facts| facts.certificate = Err(forbidden()),
    |facts| facts.policies = Err(forbidden()),
    |facts| facts.guard = [Err(forbidden()), Err(forbidden())],
    |facts| facts.token = [Err(forbidden()), Err(forbidden())],
    |facts| facts.workloads = Err(forbidden()),
    |facts| facts.dry_runs = Err(forbidden()),
    |facts| facts.daemon_sets = Err(forbidden()),
];

#[test]
fn no_line_has_an_empty_name_whatever_may_not_be_read() {
    let all = (1_u32 << UNREADABLE.len()) - 1;
    for some in (0..=all).filter(|some| some.count_ones() <= 2 || *some == all) {
        let mut facts = healthy();
        let unreadable = UNREADABLE.iter().enumerate().filter(|(at, _)| some >> at & 1 == 1);
        unreadable.for_each(|(_, change)| change(&mut facts));
        for line in lines(&facts) {
            let text = format!("{} {}", line.seen, line.remedy);
            let empty = ["``", "`/", "/`", "`-", "  ", "\"\"", "//"];
            // The message of the API server has the group of its core.
            let text = text.replace(" in API group \"\"", "");
            assert!(!empty.iter().any(|empty| text.contains(empty)), "{line:?}");
        }
    }
}
