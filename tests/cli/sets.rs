//! `--set`, and which of the places that give a parameter wins.

use insta::assert_snapshot;

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
    assert_snapshot!(aws(&["--set", "efaDevicePerGPU=2"], POD).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: policy `aws-efa` has no parameter `efaDevicePerGPU`
    hint: did you mean `efaDevicesPerGPU`?
    ");
}

#[test]
fn set_without_a_value_says_how_to_write_it() {
    assert_snapshot!(aws(&["--set", "efaDevicesPerGPU"], POD).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: `--set efaDevicesPerGPU` has no `=`; write `--set KEY=VALUE`
    ");
}

#[test]
fn set_of_the_wrong_type_names_the_value() {
    assert_snapshot!(aws(&["--set", "efaDevicesPerGPU=four"], POD).recorded(), @r#"
    exit status: 2
    ----- stderr -----
    error: `--set efaDevicesPerGPU=four`: `efaDevicesPerGPU` must be a number, but is `"four"`
    "#);
    assert_snapshot!(aws(&["--set", "ipcLock=maybe"], POD).recorded(), @r#"
    exit status: 2
    ----- stderr -----
    error: `--set ipcLock=maybe`: `ipcLock` must be `true` or `false`, but is `"maybe"`
    "#);
    assert_snapshot!(aws(&["--set", "sharedMemorySize=big"], POD).recorded(), @r#"
    exit status: 2
    ----- stderr -----
    error: `--set sharedMemorySize=big`: `sharedMemorySize` must be a quantity such as `64Gi`, but is `"big"`
    "#);
}

#[test]
fn set_beyond_the_bounds_names_the_bound() {
    assert_snapshot!(aws(&["--set", "efaDevicesPerGPU=-1"], POD).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: `--set efaDevicesPerGPU=-1`: `efaDevicesPerGPU` is -1, less than its minimum 0
    ");
    assert_snapshot!(aws(&["--set", "efaDevicesPerGPU=33"], POD).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: `--set efaDevicesPerGPU=33`: `efaDevicesPerGPU` is 33, more than its maximum 8
    ");
}

#[test]
fn set_needs_a_policy() {
    assert_snapshot!(mutate(&["--set", "efaDevicesPerGPU=2"], POD).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: no policy is named; use `--policy NAME`, or `--values FILE` with a provider enabled
    hint: the built-in policies are `aws-efa`, `azure-infiniband`, `coreweave-infiniband`, `doks-roce`, `gcp-gib`, `gcp-tcpx`, `gcp-tcpxo`, `lingjun-rdma`, `nebius-infiniband`, `oci-sriov`, `onprem-rdma`, `vke-rdma`; `fabric-injector policy list` describes them
    ");
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
    let run = run_in(folder.path(), &[&policies[..], &["--set", "debg=INFO"]].concat(), &pods);
    assert_snapshot!(run.recorded(), @"
    exit status: 2
    ----- stderr -----
    error: none of the policies `lab`, `other` has a parameter `debg`
    hint: did you mean `debug`?
    ");
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
    assert_snapshot!(run("values.yaml").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: `aws` has no setting `nicPerGPU`
     --> values.yaml:4:5
      |
    4 |     nicPerGPU: 1
      |     ^^^^^^^^^
      |
      = hint: did you mean `nicsPerGPU`?
    ");
    // The chart has the keys of all built-in policies.
    run("empty.yaml").exits(0);
}

#[test]
fn a_parameter_has_one_type_in_all_policies_of_a_provider() {
    let other = second().replace("nicsPerGPU:\n      type: number", "nicsPerGPU:\n      type: integer");
    let folder = folder(&[("lab.yaml", POLICY), ("other.yaml", &other)]);
    let args = ["mutate", "--policy", "lab.yaml", "--policy", "other.yaml"];
    assert_snapshot!(run_in(folder.path(), &args, POD).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: the parameter `nicsPerGPU` is `number` in the policy `lab` (lab.yaml), and `integer` in the policy `other` (other.yaml); give it one type in all policies of the provider, or another name
    ");
}
