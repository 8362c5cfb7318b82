//! A pod with the stamp of an earlier injection by other values.

use super::{POD, mutate};

#[test]
fn one_sentence_has_the_stamps_and_the_remedy_and_another_each_value_that_stays() {
    let first = mutate(&["--policy", "aws-efa", "--set", "efaDevicesPerGPU=1"], POD).exits(0);
    let stamp = |text: &str| {
        let at = text.find("mutated by ").unwrap() + "mutated by ".len();
        text[at..].split_whitespace().next().unwrap().to_owned()
    };
    let second = mutate(&["--policy", "aws-efa", "--set", "efaDevicesPerGPU=4"], first.text()).exits(0);
    let (before, after) = (stamp(&first.stderr), stamp(&second.stderr));
    assert_ne!(before, after);
    let line = second.stderr.lines().find(|line| line.ends_with("(restamped)")).unwrap();
    let wanted = format!(
        "  warning: inject the original manifest again for the values of `{after}`, the stamp that the pod has \
         now: it came with the stamp `{before}`, and keeps the values that it has"
    );
    assert!(line.starts_with(&wanted), "{line}");
    let kept = "`spec.containers[main].resources.limits[vpc.amazonaws.com/efa]` stays `8`";
    assert!(second.stderr.contains(kept), "{}", second.stderr);
    assert!(second.text().contains(&format!("fabric-injector.io/injected: {after}")), "{}", second.text());
}
