//! A `List` is read item by item, with the output that it has as a whole.

use super::{SMALL, mutate};

/// Fails unless the `List` comes out as it does below a comment with which it is too long to be read item by item.
#[track_caller]
fn assert_same_as_a_whole(list: &str) {
    let comment = |length: usize| format!("#{}\n", "x".repeat(length));
    for output in ["yaml", "json"] {
        let run = |length: usize| {
            let head = comment(length);
            let run = mutate(&["--policy", SMALL, "-o", output], format!("{head}{list}"));
            (run.status, run.text().replace(&head, ""), run.stderr)
        };
        assert_eq!(run(1), run(5000), "{list}");
    }
}

const GPU: &str = "[{name: c, image: i, resources: {limits: {nvidia.com/gpu: 8}}}]";
const ANNOTATION: &str = "nmp.nvidia.com/enable-multi-node-networking: \"true\"";

fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\n  kind: Pod\n  metadata:\n    name: {name}\n    annotations:\n      {ANNOTATION}\n  spec:\n    \
         containers: {GPU} # lost\n"
    )
}

#[test]
fn the_items_of_a_list_come_out_as_those_of_the_whole() {
    let (one, two) = (pod("one"), pod("two"));
    let label = one.replace("annotations:", "labels:");
    let deeper = format!("- {one}- {two}").replace('\n', "\n  ");
    for list in [
        format!("apiVersion: v1\nkind: List\nitems:\n- {one}# between\n\n- {two}"),
        format!(
            "apiVersion: v1\nitems: # all\n-\n  {two}-  # first\n  {label}kind: List\nmetadata: {{namespace: n}}\n"
        ),
        format!("kind: PodList\napiVersion: v1\nitems:\n  {}\n", deeper.trim_end()),
        format!("apiVersion: v1\nkind: List\nitems:\n- {label}- {{a: b}}\n- 7\n-\n"),
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  data: {a: b}\n"
            .to_owned(),
        format!("apiVersion: v1\nkind: List\nitems:\n- &a\n  {one}- *a\n"),
        format!("apiVersion: v1\nkind: List\nitems:\n- {one}  kind: Job\n- {two}"),
        format!("apiVersion: v1\nkind: List\nitems:\n- {one}- text: \"\n- {two}\"\n"),
    ] {
        assert_same_as_a_whole(&list);
    }
}

#[test]
fn the_items_of_a_list_in_json_keep_their_layout() {
    let item = "{\n      \"apiVersion\": \"v1\",\n      \"kind\": \"Pod\",\n      \"metadata\": {\"annotations\": \
                {\"nmp.nvidia.com/enable-multi-node-networking\": \"true\"}},\n      \"spec\": {\"containers\": \
                [{\"name\": \"c\", \"resources\": {\"limits\": {\"nvidia.com/gpu\": 8}}}]}\n    }";
    let list = format!(
        "{{\n  \"apiVersion\": \"v1\",\n  \"items\": [\n    {item},\n    {{}},\n    {item}\n  ],\n  \"kind\": \"List\"\n}}\n"
    );
    // White space that is too long to be read with each item.
    let blank = "\n".repeat(5000);
    for output in ["yaml", "json"] {
        let run = |text: &str| mutate(&["--policy", SMALL, "-q", "-o", output], text).exits(0);
        assert_eq!(run(&list).text(), run(&format!("{blank}{list}")).text().trim_start());
    }
}
