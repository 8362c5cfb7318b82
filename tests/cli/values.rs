//! `--values`: the `multinodeNetworking` block of a Helm values file.

use insta::assert_snapshot;

use super::{POD, Run, assert_file_snapshot, efa, folder, limits, mutate, run_in, sections};

/// A values file of a chart, of which one block is ours.
const CHART: &str = r#"# Default values for the platform.
global:
  imageRegistry: nvcr.io
  imagePullSecrets: [{name: ngc}]
replicaCount: 2
ingress: {enabled: yes, annotations: {}}
1: a key that is no string

multinodeNetworking:
  aws:
    enabled: true
    efaDevicesPerGPU: 4  # must match your instance type
  azure:
    enabled: false
    rdmaDevicesPerGPU: 1
    rdmaDeviceName: "hca_shared_devices_a"
  gcp:
    enabled: false
  oci:
    enabled: false
    rdmaDevicesPerGPU: 8

aws: {enabled: true, region: us-east-1}
multinodeNetworkings: {aws: 5}
"#;

/// `mutate --values values.yaml` of one pod with 8 GPUs.
fn with_values(values: &str, args: &[&str]) -> Run {
    let folder = folder(&[("values.yaml", values)]);
    run_in(folder.path(), &[&["mutate", "--values", "values.yaml"], args].concat(), POD)
}

/// What is said of values.
fn refused(values: &str) -> String {
    with_values(values, &[]).recorded()
}

#[test]
fn the_block_of_the_chart_works_unchanged_without_a_policy() {
    let values = "multinodeNetworking: {aws: {enabled: true, efaDevicesPerGPU: 4}}\n";
    assert_eq!(efa(&with_values(values, &["-q"]).exits(0)), "32");
}

#[test]
fn a_whole_helm_values_file_is_taken_as_it_is() {
    let run = with_values(CHART, &[]).exits(0);
    run.says(&["aws-efa"]);
    assert_eq!(efa(&run), "32");
}

#[test]
fn the_blocks_of_every_provider_choose_its_policy() {
    for (block, resource, count) in [
        ("aws: {enabled: true, efaDevicesPerGPU: 2}", "vpc.amazonaws.com/efa", "16"),
        (
            "azure: {enabled: true, rdmaDevicesPerGPU: 1, rdmaDeviceName: \"hca_shared_devices_a\"}",
            "rdma/hca_shared_devices_a",
            "8",
        ),
        ("oci: {enabled: true, rdmaDevicesPerGPU: 8}", "nvidia.com/mlnxnics", "64"),
    ] {
        let run = with_values(&format!("multinodeNetworking: {{{block}}}"), &["-q", "-o", "json"]).exits(0);
        assert_eq!(limits(&run.values()[0])[resource], count, "{block}");
    }
    let gcp = |rest: &str| format!("multinodeNetworking: {{gcp: {{enabled: true{rest}}}}}");
    let run = with_values(&gcp(", fabric: tcpxo"), &["--report", "json"]).exits(0);
    assert_eq!(run.reports()[0]["policy"], "gcp-tcpxo");
    assert_eq!(run.reports()[0]["outcome"], "mutated");
    // Each machine has another fabric, and the pod selects none.
    let run = with_values(&gcp(""), &["--report", "json"]).exits(1);
    let report = &run.reports()[0];
    assert_eq!(report["reason"], "setting_undecided");
    for said in ["`fabric`", "`cloud.google.com/gke-accelerator`", "`fabric-injector.io/provider`"] {
        assert!(report["message"].as_str().unwrap().contains(said), "{report}");
    }
}

#[test]
fn a_policy_of_the_enabled_provider_may_be_named_too() {
    assert_eq!(efa(&with_values(CHART, &["--policy", "aws-efa", "-q"]).exits(0)), "32");
}

#[test]
fn a_policy_of_another_provider_than_the_enabled_one_is_bad_usage() {
    assert_snapshot!(with_values(CHART, &["--policy", "oci-sriov"]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: the values file enables `aws`, and policy `oci-sriov` is for `oci`; one provider at a time
    ");
}

#[test]
fn a_value_for_a_policy_without_parameters_is_bad_usage() {
    let policy = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: lab}\nspec:\n  \
                  provider: lab\n  description: d\n  gpus: {resources: [nvidia.com/gpu]}\n  match: {labels: {a: b}}\n  \
                  rules: [{name: r, env: {A: b}}]\n";
    let folder = folder(&[("lab.yaml", policy)]);
    let run = run_in(folder.path(), &["mutate", "--policy", "lab.yaml", "--set", "x=1"], POD);
    assert_snapshot!(run.recorded(), @"
    exit status: 2
    ----- stderr -----
    error: policy `lab` has no parameter `x`
    hint: leave `--set` out: there are no parameters
    ");
}

#[test]
fn a_named_policy_takes_the_values_of_its_provider_where_none_is_enabled() {
    let values = "multinodeNetworking: {aws: {efaDevicesPerGPU: 3}, oci: {enabled: false}}";
    assert_eq!(efa(&with_values(values, &["--policy", "aws-efa", "-q"]).exits(0)), "24");
}

#[test]
fn a_values_file_feeds_a_policy_file_of_its_own_provider() {
    let folder = folder(&[
        ("lab.yaml", super::POLICY),
        ("values.yaml", "multinodeNetworking: {lab: {enabled: true, nicsPerGPU: 5}, aws: {enabled: false}}"),
    ]);
    let args = ["mutate", "--policy", "lab.yaml", "--values", "values.yaml", "-q", "-o", "json"];
    let run = run_in(folder.path(), &args, POD).exits(0);
    assert_eq!(limits(&run.values()[0])["example.com/nic"], "40");
}

#[test]
fn more_than_one_enabled_provider_is_bad_usage() {
    let values = CHART.replace("  oci:\n    enabled: false", "  oci:\n    enabled: true");
    assert_snapshot!(with_values(&values, &[]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: `aws` and `oci` are both enabled
      --> values.yaml:19:3
       |
    19 |   oci:
       |   ^^^
       |
       = hint: enable exactly one provider
    ");
    assert_snapshot!(with_values(&values, &["--policy", "aws-efa"]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: `aws` and `oci` are both enabled
      --> values.yaml:19:3
       |
    19 |   oci:
       |   ^^^
       |
       = hint: enable exactly one provider
    ");
}

#[test]
fn no_enabled_provider_and_no_policy_is_bad_usage() {
    let run = with_values("multinodeNetworking: {aws: {enabled: false}}", &[]);
    assert_snapshot!(run.recorded(), @"
    exit status: 2
    ----- stderr -----
    error: no policy is named; use `--policy NAME`, or `--values FILE` with a provider enabled
    hint: the built-in policies are `aws-efa`, `azure-infiniband`, `coreweave-infiniband`, `doks-roce`, `gcp-gib`, `gcp-tcpx`, `gcp-tcpxo`, `lingjun-rdma`, `nebius-infiniband`, `oci-sriov`, `onprem-rdma`, `vke-rdma`; `fabric-injector policy list` describes them
    ");
}

#[test]
fn an_unknown_provider_is_an_error_with_its_place() {
    assert_snapshot!(refused(&CHART.replace("  azure:", "  azur:")), @"
    exit status: 2
    ----- stderr -----
    error: there is no policy for the provider `azur`
      --> values.yaml:13:3
       |
    13 |   azur:
       |   ^^^^
       |
       = hint: did you mean `azure`?
    ");
}

#[test]
fn an_unknown_setting_is_an_error_with_its_place() {
    assert_snapshot!(refused(&CHART.replace("efaDevicesPerGPU", "efaDevicePerGPU")), @"
    exit status: 2
    ----- stderr -----
    error: `aws` has no setting `efaDevicePerGPU`
      --> values.yaml:12:5
       |
    12 |     efaDevicePerGPU: 4  # must match your instance type
       |     ^^^^^^^^^^^^^^^
       |
       = hint: did you mean `efaDevicesPerGPU`?
    ");
}

#[test]
fn an_unknown_setting_of_a_provider_that_is_not_enabled_is_an_error_too() {
    assert_snapshot!(refused(&CHART.replace("rdmaDeviceName", "rdmaDevice")), @r#"
    exit status: 2
    ----- stderr -----
    error: `azure` has no setting `rdmaDevice`
      --> values.yaml:16:5
       |
    16 |     rdmaDevice: "hca_shared_devices_a"
       |     ^^^^^^^^^^
       |
       = hint: did you mean `rdmaDeviceName`?
    "#);
}

#[test]
fn a_setting_of_the_wrong_type_is_an_error_with_its_place() {
    assert_snapshot!(refused(&CHART.replace("efaDevicesPerGPU: 4", "efaDevicesPerGPU: four")), @r#"
    exit status: 2
    ----- stderr -----
    error: `efaDevicesPerGPU` must be a number, but is `"four"`
      --> values.yaml:12:23
       |
    12 |     efaDevicesPerGPU: four  # must match your instance type
       |                       ^^^^
       |
       = hint: a number, at least 0, at most 8: EFA interfaces to request for each GPU; the product is rounded up for each container
    "#);
    assert_snapshot!(refused(&CHART.replacen("enabled: true", "enabled: \"true\"", 1)), @r#"
    exit status: 2
    ----- stderr -----
    error: expected `enabled` to be `true` or `false`, found the string `true`
      --> values.yaml:11:14
       |
    11 |     enabled: "true"
       |              ^^^^^^
    "#);
}

#[test]
fn a_setting_beyond_its_bounds_is_an_error_with_its_place() {
    assert_snapshot!(refused(&CHART.replace("efaDevicesPerGPU: 4", "efaDevicesPerGPU: -1")), @"
    exit status: 2
    ----- stderr -----
    error: `efaDevicesPerGPU` is -1, less than its minimum 0
      --> values.yaml:12:23
       |
    12 |     efaDevicesPerGPU: -1  # must match your instance type
       |                       ^^
       |
       = hint: a number, at least 0, at most 8: EFA interfaces to request for each GPU; the product is rounded up for each container
    ");
}

#[test]
fn a_repeated_key_in_the_block_is_an_error_with_its_place() {
    let values =
        CHART.replace("    efaDevicesPerGPU: 4 ", "    efaDevicesPerGPU: 4\n    efaDevicesPerGPU: 8 ");
    assert_snapshot!(refused(&values), @"
    exit status: 2
    ----- stderr -----
    error: the key `efaDevicesPerGPU` appears twice in one map
      --> values.yaml:13:5
       |
    13 |     efaDevicesPerGPU: 8  # must match your instance type
       |     ^^^^^^^^^^^^^^^^
    ");
}

#[test]
fn a_repeated_key_elsewhere_in_the_file_is_not_ours() {
    // Helm itself takes the last one without a word.
    let values = CHART.replace("replicaCount: 2", "replicaCount: 2\nreplicaCount: 3");
    assert_eq!(efa(&with_values(&values, &["-q"]).exits(0)), "32");
}

#[test]
fn a_missing_values_file_is_named() {
    assert_snapshot!(mutate(&["--values", "nowhere.yaml"], POD).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: nowhere.yaml cannot be read: No such file or directory (os error 2)
    ");
}

#[test]
fn a_values_file_that_is_no_yaml_is_an_error_with_its_place() {
    assert_snapshot!(refused("replicaCount: 2\nmultinodeNetworking: {aws: [}\n"), @"
    exit status: 2
    ----- stderr -----
    error: not valid YAML: `}` does not close the brackets that are open, within the brackets that begin on line 2
     --> values.yaml:2:29
      |
    2 | multinodeNetworking: {aws: [}
      |                             ^
    ");
}

/// The sample pod with this `nodeSelector`.
fn on(selector: &str) -> String {
    POD.replace("spec:\n", &format!("spec:\n  nodeSelector: {{{selector}}}\n"))
}

/// `mutate --values` with this setting of `efaDevicesPerGPU`.
fn with_setting(setting: &str, args: &[&str], pod: &str) -> Run {
    let values = format!("multinodeNetworking: {{aws: {{enabled: true, efaDevicesPerGPU: {setting}}}}}");
    let folder = folder(&[("values.yaml", &values)]);
    run_in(folder.path(), &[&["mutate", "--values", "values.yaml"], args].concat(), pod).exits(0)
}

const TYPE: &str = "node.kubernetes.io/instance-type";

#[test]
fn a_table_by_another_label_gives_each_pool_its_value() {
    let table = "{pool: {p4d: 0.5, P5: 4, h100: {8: 2, 4: 1}}}";
    for (selector, devices) in [("pool: P4D", "4"), ("pool: p5", "32"), ("pool: h100", "16")] {
        let run = with_setting(table, &[], &on(selector));
        assert_eq!(efa(&run), devices, "{selector}");
        assert!(!run.stderr.contains("parameter_"), "{}", run.stderr);
    }
}

#[test]
fn a_table_of_the_values_precedes_that_of_the_policy() {
    let (known, other) =
        (format!("pool: a, {TYPE}: p5.48xlarge"), format!("pool: b, {TYPE}: ml.p5.48xlarge"));
    assert_eq!(efa(&with_setting("{pool: {a: 2}}", &[], &on(&known))), "16");
    assert_eq!(efa(&with_setting("{pool: {a: 2}}", &[], &on(&other))), "32");
    let table = format!("{{{TYPE}: {{p5.48xlarge: 3}}, pool: {{a: 2}}}}");
    assert_eq!(efa(&with_setting(&table, &[], &on(&known))), "24");
    assert_eq!(efa(&with_setting(&table, &["--set", "efaDevicesPerGPU=1"], &on(&known))), "8");
}

#[test]
fn a_default_of_the_values_follows_all_tables_and_assumes_nothing() {
    let setting = "{pool: {a: 2}, default: 3}";
    let run = with_setting(setting, &[], POD);
    assert_eq!(efa(&run), "24");
    assert!(!run.stderr.contains("parameter_assumed"), "{}", run.stderr);
    assert_eq!(efa(&with_setting(setting, &[], &on(&format!("{TYPE}: p5.48xlarge")))), "32");
    assert_eq!(efa(&with_setting("{default: 3}", &[], POD)), "24");
}

#[test]
fn an_assumed_value_comes_with_the_labels_that_would_have_settled_it() {
    let run = with_setting("{pool: {a: 2, b: {4: 1}}}", &[], &on("pool: other"));
    assert_eq!(efa(&run), "8");
    assert_snapshot!(run.said(), @"
    stdin: document 1: Pod/trainer: mutated by aws-efa@<digest>
      + main: vpc.amazonaws.com/efa 8, env NCCL_NET_PLUGIN NCCL_SOCKET_IFNAME FI_EFA_USE_HUGE_PAGE, mount /dev/shm /opt/amazon-efa-ofi /etc/nccl.conf, capability IPC_LOCK
      + pod: volume nv-shared-memory amazon-efa nccl-settings, annotation settings.fabric-injector.io/nccl fabric-injector.io/injected
      warning: `efaDevicesPerGPU` is assumed to be 1; set it, or select nodes that a table knows: no table has a value for a pod that selects `pool: other`, no `node.kubernetes.io/instance-type`, nor one of 5 other labels, with 8 GPUs (parameter_assumed)
    ");
}

#[test]
fn empty_entries_of_a_table_are_as_if_they_were_not_there() {
    let run = with_setting("{pool: {a: null, b: 2}, zone: null, default: null}", &[], &on("pool: a"));
    assert_eq!(efa(&run), "8");
    run.says(&["parameter_assumed"]);
}

#[test]
fn a_mistake_in_a_table_of_the_values_is_shown_at_its_place() {
    let settings =
        ["{pool: {a: four}}", "{pool: {a: 99}}", "{default: four}", "{pool: 4}", "{default: {a: 1}}"];
    let answers = settings.map(|setting| {
        let values =
            format!("multinodeNetworking:\n  aws:\n    enabled: true\n    efaDevicesPerGPU: {setting}\n");
        (setting, with_values(&values, &[]).recorded())
    });
    assert_file_snapshot!(sections(answers));
}

#[test]
fn manifests_keep_the_tables_of_the_values() {
    let values = "multinodeNetworking: {aws: {enabled: true, efaDevicesPerGPU: {pool: {b: 2, a: {8: 1}}, default: 3}}}";
    let folder = folder(&[("values.yaml", values)]);
    let run =
        run_in(folder.path(), &["manifests", "--values", "values.yaml", "--image", "fi:1"], "").exits(0);
    let maps = run.documents();
    let mut texts = maps.iter().filter_map(|object| object["data"]["values.yaml"].as_str());
    let text = texts.next_back().unwrap_or_else(|| panic!("no values in {maps:?}"));
    let folder = crate::folder(&[("values.yaml", text)]);
    let args = ["mutate", "--values", "values.yaml"];
    for (pod, devices) in [(on("pool: b"), "16"), (on("pool: a"), "8"), (POD.to_owned(), "24")] {
        assert_eq!(efa(&run_in(folder.path(), &args, &pod).exits(0)), devices, "{text}");
    }
}

#[test]
fn an_empty_block_has_a_hint() {
    assert_snapshot!(refused("{\"multinodeNetworking\": null}"), @r#"
    exit status: 2
    ----- stderr -----
    error: expected `multinodeNetworking` to be a map, found nothing
     --> values.yaml:1:25
      |
    1 | {"multinodeNetworking": null}
      |                         ^^^^
      |
      = hint: write `multinodeNetworking: {aws: {enabled: true}}`, with the provider that you use
    "#);
    assert_snapshot!(refused("multinodeNetworking:\n"), @"
    exit status: 2
    ----- stderr -----
    error: expected `multinodeNetworking` to be a map, found nothing
     --> values.yaml:1:20
      |
    1 | multinodeNetworking:
      |                    ^
      |
      = hint: write `multinodeNetworking: {aws: {enabled: true}}`, with the provider that you use
    ");
    assert_snapshot!(refused("multinodeNetworking: {aws: null}"), @"
    exit status: 2
    ----- stderr -----
    error: expected `aws` to be a map, found nothing
     --> values.yaml:1:28
      |
    1 | multinodeNetworking: {aws: null}
      |                            ^^^^
      |
      = hint: write `aws: {enabled: true}`, or remove it
    ");
}

#[test]
fn a_hint_names_each_provider_once() {
    assert_snapshot!(refused("multinodeNetworking: {lab: {enabled: true}}\n"), @"
    exit status: 2
    ----- stderr -----
    error: there is no policy for the provider `lab`
     --> values.yaml:1:23
      |
    1 | multinodeNetworking: {lab: {enabled: true}}
      |                       ^^^
      |
      = hint: known here: `aws`, `azure`, `coreweave`, `doks`, `gcp`, `lingjun`, `nebius`, `oci`, `onprem`, `vke`
    ");
}
