use super::*;
use crate::{PolicyFile, definitions};

/// A policy without findings. Each test replaces a part of it.
const POLICY: &str = r#"apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata:
  name: lab
spec:
  provider: lab
  description: d
  gpus: {resources: [lab/gpu]}
  match:
    anyAnnotation: {lab/fabric: "true"}
  parameters:
    ratio: {type: number, description: d, default: 2}
    locked: {type: boolean, description: d, default: false}
    mode: {type: string, description: d, enum: [fallback, fail], default: fail}
    perhaps: {type: string, description: d}
  variables:
    profiles:
      h100: {pairs: "4"}
      b200: {pairs: "1"}
    profile: ${profiles[?node[?'pool'].orValue('')].orValue(profiles['h100'])}
  files:
    /etc/nccl.conf:
      variables: [NCCL_*]
  rules:
    - name: devices
      containers: gpus > 0
      when: locked || mode == 'fail'
      env:
        NCCL_PAIRS: "${profile.pairs}"
        NCCL_NAME: "${perhaps}"
      container:
        resources:
          limits: {lab/roce: "${devices(gpus, ratio)}"}
          requests: {lab/roce: "${devices(gpus, ratio)}"}
        securityContext: {capabilities: {add: [IPC_LOCK]}}
        volumeMounts:
          - {name: shm, mountPath: /dev/shm}
      pod:
        spec:
          volumes:
            - {name: shm, emptyDir: {}}
"#;

/// The codes and places of the findings of the policy with some of its text replaced.
fn found(replaced: &str, by: &str) -> Vec<(&'static str, String)> {
    assert!(POLICY.contains(replaced), "{replaced}");
    findings_in(&POLICY.replacen(replaced, by, 1))
}

fn findings_in(text: &str) -> Vec<(&'static str, String)> {
    let definition = Definition::read("lab.yaml", text).unwrap_or_else(|error| panic!("{error}"));
    let place = |finding: SourceError| {
        let span = finding.diagnostic.span;
        let line = text.lines().nth(span.line - 1).unwrap_or_default();
        (finding.diagnostic.code, line.chars().skip(span.column - 1).take(span.length).collect())
    };
    errors(&definition).into_iter().chain(warnings(&definition)).map(place).collect()
}

#[track_caller]
fn finds(replaced: &str, by: &str, expected: &[(&str, &str)]) {
    let seen = found(replaced, by);
    let seen: Vec<(&str, &str)> = seen.iter().map(|(code, place)| (*code, place.as_str())).collect();
    assert_eq!(seen, expected, "{by}");
}

#[test]
fn a_policy_without_mistakes_has_no_finding() {
    assert_eq!(findings_in(POLICY), []);
}

#[test]
fn a_field_or_key_that_no_value_has_is_found() {
    let value = "NCCL_PAIRS: \"${profile.pairs}\"";
    for (expression, expected) in [
        ("profiles.h100.pears", ("unknown_name", "pears")),
        ("profiles['h200'].pairs", ("unknown_name", "h200")),
        ("profiles[?'h200'].?pairs.orValue('1')", ("unknown_table_key", "h200")),
        ("has(profiles.h200) ? '1' : '2'", ("unknown_table_key", "h200")),
        ("string(gpuCounts[?'lab/gpus'].orValue(0))", ("unknown_table_key", "lab/gpus")),
        ("pod.spec.?hostname2.orValue('')", ("not_a_pod_field", "hostname2")),
        ("pod.spec.contaners[0].name", ("not_a_pod_field", "contaners")),
        ("string(has(pod.spec.hostNetwrk))", ("not_a_pod_field", "hostNetwrk")),
        (
            "pod.spec.containers.filter(c, c.imag == 'x').map(c, c.name).join(',')",
            ("not_a_pod_field", "imag"),
        ),
        ("container.resource.limits['a/b']", ("not_a_pod_field", "resource")),
    ] {
        let by = format!("NCCL_PAIRS: \"${{profile.pairs}}${{{expression}}}\"");
        finds(value, &by, &[expected]);
    }
}

#[test]
fn a_comparison_that_never_holds_is_found() {
    let condition = "locked || mode == 'fail'";
    for (comparison, expected) in [
        ("locked == 'true'", ("unlike_types", "'true'")),
        ("locked != 'false'", ("unlike_types", "'false'")),
        ("hostNetwork == 1", ("unlike_types", "1")),
        ("totalGpus == '8'", ("unlike_types", "'8'")),
        ("totalGpus == true", ("unlike_types", "true")),
        ("claimNames == 'nics'", ("unlike_types", "'nics'")),
        ("pod.metadata.?labels[?'a'].orValue('') == true", ("unlike_types", "true")),
        ("node[?'pool'] == 'h100'", ("unlike_types", "'h100'")),
        ("mode == 'Fail'", ("unknown_enum_value", "'Fail'")),
        ("mode in ['fail', 'fal']", ("unknown_enum_value", "'fal'")),
        ("profiles.h100.pairs == '2'", ("unknown_enum_value", "'2'")),
        ("pod.spec.?restartPolicy.orValue('') == 'always'", ("unknown_enum_value", "'always'")),
        ("node[?'pool'].orValue('') == 'H100'", ("always_false", "'H100'")),
        ("mode.lowerAscii() == 'Fail'", ("always_false", "'Fail'")),
        ("podNamespace in ['Team']", ("always_false", "'Team'")),
        ("pod.spec.containers.exists(c, c.name == 'Train')", ("always_false", "'Train'")),
        ("mode < 'g'", ("quantity_as_text", "locked || mode == 'fail' || mode < 'g'")),
    ] {
        finds(condition, &format!("{condition} || {comparison}"), &[expected]);
    }
    for comparison in [
        "mode == ''",
        "locked == true",
        "ratio == 2 || ratio == 2.0 || totalGpus == 8",
        "mode.startsWith('F') || mode.contains('Ail')",
        "node[?'pool'].orValue('') in ['h100', 'b200']",
        "mode.lowerAscii() == 'fail'",
        "pod.spec.containers[0].name == 'train' || 'train' in pod.spec.containers.map(c, c.name)",
        "profiles.h100.pairs == '4' || 'h100' in profiles",
        "pod.spec.?hostNetwork.orValue(false) == true",
        "perhaps == 'x' || perhaps != null",
        "totalGpus < 8 && ratio > 1.0",
    ] {
        finds(condition, &format!("{condition} || {comparison}"), &[]);
    }
}

#[test]
fn what_has_no_effect_is_found() {
    finds("NCCL_NAME: \"${perhaps}\"", "NCCL_NAME: x", &[("unused_parameter", "perhaps")]);
    finds("NCCL_PAIRS: \"${profile.pairs}\"", "NCCL_PAIRS: \"1\"", &[("unused_variable", "profile")]);
    finds("[NCCL_*]", "[NCLC_*]", &[("unknown_setting_variable", "NCLC_*")]);
    finds("[NCCL_*]", "[NCCL_*, NCCL_PAIR]", &[("unknown_setting_variable", "NCCL_PAIR")]);
    // For the rules of extensions.
    finds("[NCCL_*]", "[NCCL_*, UCX_*]", &[]);
    finds(
        "- {name: shm, mountPath: /dev/shm}",
        "- {name: shn, mountPath: /dev/shm}",
        &[("mount_without_volume", "shn")],
    );
}

#[test]
fn what_a_device_needs_is_found() {
    finds(
        "securityContext: {capabilities: {add: [IPC_LOCK]}}",
        "securityContext: {capabilities: {add: [NET_RAW]}}",
        &[("device_without_ipc_lock", "\"${devices(gpus, ratio)}\"")],
    );
    finds("securityContext: {capabilities: {add: [IPC_LOCK]}}", "securityContext: {privileged: true}", &[]);
    finds(
        "limits: {lab/roce: \"${devices(gpus, ratio)}\"}",
        "limits: {memory: 1Gi}",
        &[("request_without_limit", "\"${devices(gpus, ratio)}\"")],
    );
}

#[test]
fn a_container_that_keeps_a_job_from_completing_is_found() {
    let with = |list: &str, more: &str| {
        format!(
            "spec:\n          {list}:\n            - {{name: daemon, image: d{more}}}\n          volumes:"
        )
    };
    let spec = "spec:\n          volumes:";
    finds(spec, &with("containers", ""), &[("sidecar_keeps_job", "daemon")]);
    finds(spec, &with("initContainers", ", restartPolicy: Always"), &[]);
    let text = POLICY.replacen(spec, &with("containers", ""), 1).replacen(
        "  match:\n",
        "  match:\n    ownerKinds: [StatefulSet]\n",
        1,
    );
    assert_eq!(findings_in(&text), []);
}

#[test]
fn policies_that_match_one_pod_are_found() {
    let other = POLICY.replacen("name: lab", "name: other", 1);
    let overlap = |replaced: &str, by: &str| {
        let read = |text: &str| Definition::read("p.yaml", text).unwrap();
        let (one, other) = (read(POLICY), read(&other.replacen(replaced, by, 1)));
        overlaps(&[&one, &other]).into_iter().map(|found| found.diagnostic.code).collect::<Vec<_>>()
    };
    let trigger = "anyAnnotation: {lab/fabric: \"true\"}";
    assert_eq!(overlap(trigger, trigger), ["policies_overlap"]);
    assert_eq!(overlap(trigger, &format!("{trigger}\n    namespaces: [a]")), ["policies_overlap"]);
    for apart in [
        "anyAnnotation: {lab/fabric: \"other\"}".to_owned(),
        format!("{trigger}\n    when: node[?'pool'].orValue('') == 'h100'"),
        "exceptAnnotation: {lab/fabric: \"*\"}\n    labels: {x: \"y\"}".to_owned(),
    ] {
        assert_eq!(overlap(trigger, &apart), Vec::<&str>::new(), "{apart}");
    }
}

#[test]
fn an_extension_has_the_warnings_of_all_its_files() {
    let base = POLICY.replacen("mode == 'fail'", "mode == 'none'", 1);
    let own = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata:\n  name: own\nspec:\n  extends: lab\n  \
               rules:\n    - name: own\n      when: mode == 'Fail'\n      env: {A: b}\n";
    let files = [("lab.yaml", base.as_str()), ("own.yaml", own)]
        .map(|(file, text)| PolicyFile::read(file, text).unwrap());
    let definitions = definitions(&files, &[]).unwrap();
    let found: Vec<_> = warnings(&definitions[1]).into_iter().map(|found| found.to_string()).collect();
    let [of_base, own] = found.as_slice() else { panic!("{found:?}") };
    assert!(of_base.contains("lab.yaml:") && own.contains("own.yaml:9:"), "{found:?}");
}
