//! `--set`, and which of the places that give a parameter wins.

use super::{POD, POLICY, aws, efa, folder, mutate, run_in};

/// The pod on nodes with 4 SMALL interfaces for each GPU.
fn on_p5() -> String {
    POD.replace("spec:\n", "spec:\n  nodeSelector:\n    node.kubernetes.io/instance-type: p5.48xlarge\n")
}

#[test]
fn the_default_holds_where_nothing_else_gives_a_value() {
    assert_eq!(efa(&aws(&[], POD).exits(0)), "8");
}

#[test]
fn the_instance_type_wins_over_the_default() {
    assert_eq!(efa(&aws(&[], on_p5()).exits(0)), "32");
}

#[test]
fn values_win_over_the_instance_type() {
    let folder =
        folder(&[("values.yaml", "multinodeNetworking: {aws: {enabled: true, efaDevicesPerGPU: 3}}")]);
    let run = run_in(folder.path(), &["mutate", "--values", "values.yaml"], on_p5()).exits(0);
    assert_eq!(efa(&run), "24");
    run.says(&["parameter_contradicts"]);
}

#[test]
fn set_wins_over_values() {
    let folder =
        folder(&[("values.yaml", "multinodeNetworking: {aws: {enabled: true, efaDevicesPerGPU: 3}}")]);
    for pod in [POD.to_owned(), on_p5()] {
        let args = ["mutate", "--values", "values.yaml", "--set", "efaDevicesPerGPU=2", "-q"];
        assert_eq!(efa(&run_in(folder.path(), &args, &pod).exits(0)), "16");
    }
}

#[test]
fn set_takes_every_type_of_value() {
    let parameters = "  parameters:
    whole: {type: integer, description: d}
    ratio: {type: number, description: d}
    text: {type: string, description: d}
    flag: {type: boolean, description: d}
    size: {type: quantity, description: d}
    names: {type: stringList, description: d}
";
    let value = "FABRIC: \"${whole}/${ratio}/${text}/${flag}/${size}/${names.join(',')}\"";
    let (head, _) = POLICY.split_once("  parameters:\n").unwrap();
    let (_, rules) = POLICY.split_once("  rules:\n").unwrap();
    let rules = rules.replace("FABRIC: lab", value).replace("nicsPerGPU", "ratio");
    let folder = folder(&[("lab.yaml", &format!("{head}{parameters}  rules:\n{rules}"))]);
    let sets = ["whole=3", "ratio=0.5", "text=a=b,c", "flag=true", "size=64Gi", "names=eth0,eth1"];
    let mut args = vec!["mutate", "--policy", "lab.yaml", "-q", "-o", "json"];
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    let run = run_in(folder.path(), &args, POD).exits(0);
    assert_eq!(
        run.values()[0]["spec"]["containers"][0]["env"][0]["value"],
        "3/0.5/a=b,c/true/64Gi/eth0,eth1"
    );
    assert_eq!(super::limits(&run.values()[0])["example.com/nic"], "4");
}

#[test]
fn set_of_an_unknown_parameter_names_it_and_those_that_there_are() {
    let run = aws(&["--set", "efaDevicePerGPU=2"], POD).exits(2);
    run.writes_nothing().says(&["`efaDevicePerGPU`", "aws-efa", "efaDevicesPerGPU"]);
}

#[test]
fn set_without_a_value_says_how_to_write_it() {
    aws(&["--set", "efaDevicesPerGPU"], POD)
        .exits(2)
        .writes_nothing()
        .says(&["efaDevicesPerGPU", "KEY=VALUE"]);
}

#[test]
fn set_of_the_wrong_type_names_the_value() {
    aws(&["--set", "efaDevicesPerGPU=four"], POD)
        .exits(2)
        .writes_nothing()
        .says(&["`efaDevicesPerGPU`", "four"]);
    aws(&["--set", "ipcLock=maybe"], POD).exits(2).writes_nothing().says(&["`ipcLock`", "maybe"]);
    aws(&["--set", "sharedMemorySize=big"], POD)
        .exits(2)
        .writes_nothing()
        .says(&["`sharedMemorySize`", "big"]);
}

#[test]
fn set_beyond_the_bounds_names_the_bound() {
    aws(&["--set", "efaDevicesPerGPU=-1"], POD).exits(2).writes_nothing().says(&["-1", "minimum 0"]);
    aws(&["--set", "efaDevicesPerGPU=33"], POD).exits(2).writes_nothing().says(&["33", "maximum 8"]);
}

#[test]
fn set_needs_a_policy() {
    mutate(&["--set", "efaDevicesPerGPU=2"], POD).exits(2).writes_nothing().says(&["aws-efa"]);
}

/// The stamp of the pod that comes out.
fn stamp(args: &[&str], pod: &str) -> String {
    let run = aws(&[args, &["-o", "json"]].concat(), pod).exits(0);
    run.values()[0]["metadata"]["annotations"]["fabric-injector.io/injected"].as_str().unwrap().to_owned()
}

#[test]
fn the_stamp_names_the_policy_and_covers_the_values_in_force() {
    let plain = stamp(&[], POD);
    let digest = plain.strip_prefix("aws-efa@").expect(&plain);
    assert_eq!(digest.len(), 12);
    assert!(digest.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)), "{digest}");
    assert_eq!(stamp(&[], POD), plain, "the stamp is stable");
    assert_ne!(stamp(&["--set", "efaDevicesPerGPU=2"], POD), plain);
}

#[test]
fn the_stamp_does_not_tell_values_from_set() {
    let folder =
        folder(&[("values.yaml", "multinodeNetworking: {aws: {enabled: true, efaDevicesPerGPU: 4}}")]);
    let path = folder.path().join("values.yaml");
    let by_values = stamp(&["--values", path.to_str().unwrap()], POD);
    assert_eq!(stamp(&["--set", "efaDevicesPerGPU=4"], POD), by_values);
}

/// A policy of the provider of the sample policy for pods with another annotation, with one parameter of its own.
fn second() -> String {
    POLICY
        .replace("name: lab", "name: other")
        .replace("enable-multi-node-networking", "other")
        .replace(
            "  parameters:\n",
            "  parameters:\n    debug: {type: string, description: d, default: WARN}\n",
        )
        .replace("FABRIC: lab", "FABRIC: ${debug}")
}

#[test]
fn a_parameter_is_set_for_every_policy_that_has_it() {
    let folder = folder(&[
        ("lab.yaml", POLICY),
        ("other.yaml", &second()),
        ("values.yaml", "multinodeNetworking: {lab: {enabled: true, nicsPerGPU: 1, debug: INFO}}"),
    ]);
    let pods = format!("{POD}---\n{}", POD.replace("enable-multi-node-networking", "other"));
    let policies = ["mutate", "--policy", "lab.yaml", "--policy", "other.yaml", "-q", "-o", "json"];
    for more in [&["--set", "nicsPerGPU=1", "--set", "lab.debug=INFO"][..], &["--values", "values.yaml"]] {
        let run = run_in(folder.path(), &[&policies, more].concat(), &pods).exits(0);
        let container = |at: usize| run.values()[at]["spec"]["containers"][0].clone();
        for at in [0, 1] {
            assert_eq!(container(at)["resources"]["limits"]["example.com/nic"], "8");
        }
        assert_eq!(container(0)["env"][0]["value"], "lab");
        assert_eq!(container(1)["env"][0]["value"], "INFO");
    }
    let run = run_in(folder.path(), &[&policies[..], &["--set", "debg=INFO"]].concat(), &pods).exits(2);
    run.writes_nothing()
        .says(&["none of the policies `lab`, `other` has a parameter `debg`", "did you mean `debug`?"]);
}

#[test]
fn a_setting_that_no_policy_in_use_has_is_an_error() {
    let folder = folder(&[
        ("efa.yaml", &POLICY.replace("provider: lab", "provider: aws")),
        ("values.yaml", "multinodeNetworking:\n  aws:\n    enabled: true\n    nicPerGPU: 1\n"),
        ("empty.yaml", "multinodeNetworking: {aws: {enabled: true, efaDevicesPerGPU: null}}"),
    ]);
    let run = |values: &str| {
        run_in(folder.path(), &["mutate", "--policy", "efa.yaml", "--values", values, "-q"], POD)
    };
    run("values.yaml").exits(2).writes_nothing().says(&[
        "values.yaml:4:5",
        "`nicPerGPU`",
        "did you mean `nicsPerGPU`?",
    ]);
    // The chart has the keys of all built-in policies.
    run("empty.yaml").exits(0);
}

#[test]
fn a_parameter_has_one_type_in_all_policies_of_a_provider() {
    let other = second().replace("nicsPerGPU:\n      type: number", "nicsPerGPU:\n      type: integer");
    let folder = folder(&[("lab.yaml", POLICY), ("other.yaml", &other)]);
    let args = ["mutate", "--policy", "lab.yaml", "--policy", "other.yaml"];
    let run = run_in(folder.path(), &args, POD).exits(2);
    run.writes_nothing().says(&[
        "`nicsPerGPU` is `number` in the policy `lab` (lab.yaml), and `integer` in the policy `other`",
        "other.yaml",
    ]);
}
