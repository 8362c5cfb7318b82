//! Policies and values are loaded anew when their files change.

use std::fs::{self, File};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::certificates::{Site, mount};
use super::client::Client;
use super::eventually;
use super::reviews::{assert_right, response, review, sample, variable};
use super::server::{Server, folder};

/// The file of the policy `aws-efa`.
const AWS: &str = include_str!("../../policies/aws-efa.yaml");
/// What of it is changed: `NCCL_SOCKET_IFNAME` of every pod.
const DEFAULT: &str = "default: ^lo,docker,veth,eni,pod-id-link0";

/// The policy with another value for `NCCL_SOCKET_IFNAME`.
fn with_interface(interface: &str) -> String {
    assert!(AWS.contains(DEFAULT));
    AWS.replace(DEFAULT, &format!("default: {interface}"))
}

/// A policy for pods with the label `lab: "true"`, which sets a variable `FABRIC`.
const LAB: &str = r#"apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata:
  name: lab
spec:
  provider: aws
  description: A policy to try things on
  gpus: {resources: [nvidia.com/gpu]}
  match:
    anyAnnotation:
      example.com/lab: "true"
  rules:
    - name: fabric
      env:
        FABRIC: lab
"#;

/// `NCCL_SOCKET_IFNAME` of a new pod.
async fn interface(client: &Client) -> Value {
    variable(&client.post(sample("a")).await.unwrap(), "a", "NCCL_SOCKET_IFNAME")
}

/// `FABRIC` of a new pod that the policy `lab` is for.
async fn lab_variable(client: &Client) -> Value {
    let mut pod = super::reviews::pod();
    pod["metadata"]["annotations"] = json!({"example.com/lab": "true"});
    let reply = client.post(review("lab", &pod)).await.unwrap();
    if response(&reply, "lab")["patch"].is_null() { Value::Null } else { variable(&reply, "lab", "FABRIC") }
}

/// What `/policies` says.
async fn in_use(server: &Server) -> Vec<Value> {
    let mut said: Value = serde_json::from_slice(&server.get("/policies").await.body).unwrap();
    said["policies"].as_array_mut().unwrap().drain(..).collect()
}

/// Waits until there were so many reloads with this result.
async fn reloaded(server: &Server, result: &str, times: usize) {
    eventually("a reload", async || server.reloads("policies", result).await >= times).await;
    assert_eq!(server.reloads("policies", result).await, times);
}

#[tokio::test]
async fn a_policy_file_that_changes_holds_for_new_pods_and_no_review_is_lost() {
    let site = Site::new();
    let file = site.path("efa.yaml");
    fs::write(&file, with_interface("eth1")).unwrap();
    let server = site.serve(&["--policy", &file]).await;
    let client = site.client(&server);
    assert_eq!(interface(&client).await, "eth1");
    let before = in_use(&server).await.remove(0);
    assert_eq!((&before["name"], &before["file"]), (&"aws-efa".into(), &file.as_str().into()));
    let digest = |policy: &Value| policy["digest"].as_str().unwrap().to_owned();
    let series = |digest: &str| {
        format!("fabric_injector_policy_info{{policy=\"aws-efa\",provider=\"aws\",digest=\"{digest}\"}}")
    };
    assert_eq!(server.metric(&series(&digest(&before))).await, 1);
    fs::write(&file, with_interface("eth2")).unwrap();
    let mut kept = client.connect().await.unwrap();
    eventually("new pods get the new value", async || {
        let reply = kept.post(sample("during")).await.expect("every review is answered");
        assert_right(&reply, "during");
        variable(&reply, "during", "NCCL_SOCKET_IFNAME") == "eth2"
    })
    .await;
    reloaded(&server, "success", 1).await;
    assert_eq!(server.reloads("certificate", "success").await, 0, "nothing else was loaded");
    let after = in_use(&server).await.remove(0);
    assert_eq!(after["parameters"]["socketInterface"], json!({"value": "eth2", "from": "default"}));
    assert_ne!(digest(&after), digest(&before));
    assert_eq!(server.metric(&series(&digest(&after))).await, 1);
    let metrics = server.get("/metrics").await.text();
    assert!(!metrics.contains(&digest(&before)), "a policy that is no longer in use has no series");
}

#[tokio::test]
async fn a_broken_policy_keeps_the_last_good_one_until_it_is_mended() {
    let site = Site::new();
    let file = site.path("efa.yaml");
    fs::write(&file, AWS).unwrap();
    let server = site.serve(&["--policy", &file]).await;
    let client = site.client(&server);
    let good = interface(&client).await;
    let broken = with_interface("eth1").replace("\n  rules:\n", "\n  rulse:\n");
    let line = broken.lines().position(|line| line == "  rulse:").unwrap() + 1;
    fs::write(&file, broken).unwrap();
    reloaded(&server, "failure", 1).await;
    assert!(!server.is_up_to_date("policies").await);
    assert!(server.is_up_to_date("certificate").await);
    assert_eq!(interface(&client).await, good);
    assert_eq!(server.status("/readyz").await, 200);
    let place = format!("{file}:{line}:3");
    let failed = server.logged("reload failed, the previous version stays in use", 1).await.remove(0);
    assert_eq!((&failed["level"], &failed["what"]), (&"ERROR".into(), &"policies".into()), "{failed}");
    assert!(failed["error"].as_str().unwrap().contains(&place), "no {place} in {failed}");
    let verbose = server.get("/readyz?verbose").await;
    assert_eq!(verbose.status, 200);
    for part in ["[!]policies: the last reload failed", &place, "rulse", "\nready\n"] {
        assert!(verbose.text().contains(part), "no `{part}` in {}", verbose.text());
    }
    fs::write(&file, with_interface("eth3")).unwrap();
    reloaded(&server, "success", 1).await;
    assert_eq!(interface(&client).await, "eth3");
    assert!(server.is_up_to_date("policies").await);
    assert_eq!(server.reloads("policies", "failure").await, 1);
    let verbose = server.get("/readyz?verbose").await.text();
    assert!(!verbose.contains("[!]"), "{verbose}");
}

#[tokio::test]
async fn policies_are_added_to_a_folder_and_removed_from_it() {
    let site = Site::new();
    let policies = folder(&[("efa.yaml", AWS)]);
    let server = site.serve(&["--policy", policies.path().to_str().unwrap()]).await;
    let client = site.client(&server);
    assert_eq!(lab_variable(&client).await, Value::Null);
    let lab = policies.path().join("lab.yaml");
    fs::write(&lab, LAB).unwrap();
    eventually("the new policy is in use", async || lab_variable(&client).await == "lab").await;
    assert_eq!(in_use(&server).await.len(), 2);
    assert_ne!(interface(&client).await, Value::Null);
    let has_series = async |policy: &str| {
        server.get("/metrics").await.text().contains(&format!("reviews_total{{policy=\"{policy}\""))
    };
    assert!(has_series("lab").await && has_series("aws-efa").await);
    fs::remove_file(&lab).unwrap();
    eventually("the policy is gone", async || lab_variable(&client).await == Value::Null).await;
    assert_eq!(in_use(&server).await.len(), 1);
    eventually("its series are gone", async || !has_series("lab").await).await;
    assert!(has_series("aws-efa").await);
    // The last one: there is nothing to go on with.
    fs::remove_file(policies.path().join("efa.yaml")).unwrap();
    reloaded(&server, "failure", 1).await;
    assert_right(&client.post(sample("still")).await.unwrap(), "still");
    let verbose = server.get("/readyz?verbose").await.text();
    assert!(verbose.contains("has no policy in it"), "{verbose}");
}

#[tokio::test]
async fn a_mounted_config_map_is_followed() {
    let site = Site::new();
    let folder = tempfile::tempdir().unwrap();
    mount(folder.path(), "..2026_a", &[("efa.yaml", AWS), ("lab.yaml", LAB)]);
    let server = site.serve(&["--policy", folder.path().to_str().unwrap()]).await;
    let client = site.client(&server);
    assert_eq!(lab_variable(&client).await, "lab");
    let lab = LAB.replace("FABRIC: lab", "FABRIC: other");
    mount(folder.path(), "..2026_b", &[("efa.yaml", &with_interface("eth1")), ("lab.yaml", &lab)]);
    eventually("new pods get the new value", async || lab_variable(&client).await == "other").await;
    assert_eq!(interface(&client).await, "eth1");
    mount(folder.path(), "..2026_c", &[("lab.yaml", &lab)]);
    eventually("a file is gone", async || in_use(&server).await.len() == 1).await;
    assert_eq!(server.reloads("policies", "failure").await, 0);
}

#[tokio::test]
async fn a_values_file_is_followed_also_to_another_provider() {
    let site = Site::new();
    let file = site.path("values.yaml");
    let values = |text: &str| fs::write(&file, format!("image: x\nmultinodeNetworking:\n{text}")).unwrap();
    values("  aws: {enabled: true, socketInterface: eth1}\n");
    let server = site.serve(&["--values", &file]).await;
    let client = site.client(&server);
    assert_eq!(interface(&client).await, "eth1");
    values("  aws: {enabled: true, socketInterface: eth2}\n");
    eventually("new pods get the new value", async || interface(&client).await == "eth2").await;
    let parameter = in_use(&server).await.remove(0)["parameters"]["socketInterface"].take();
    assert_eq!(parameter, json!({"value": "eth2", "from": "operator"}));
    values("  aws: {enabled: true, socketInterfaces: eth3}\n");
    reloaded(&server, "failure", 1).await;
    assert_eq!(interface(&client).await, "eth2");
    let verbose = server.get("/readyz?verbose").await.text();
    assert!(verbose.contains(&format!("{file}:3:")), "{verbose}");
    values("  gcp: {enabled: true, fabric: tcpxo}\n");
    let has_tcpxo = async || in_use(&server).await.iter().any(|policy| policy["name"] == "gcp-tcpxo");
    eventually("other policies are in use", has_tcpxo).await;
    eventually("all is well", async || server.is_up_to_date("policies").await).await;
    let reply = client.post(sample("gcp")).await.unwrap();
    assert!(response(&reply, "gcp")["auditAnnotations"]["outcome"].as_str().unwrap().contains("gcp-tcpxo"));
}

/// What makes a file useless.
pub(crate) type Spoil = fn(&str);

/// Makes a pipe of a file. Nobody writes to it.
pub(crate) fn make_pipe(path: &str) {
    fs::remove_file(path).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Makes a file of a gibibyte that takes no room on disk.
pub(crate) fn make_huge(path: &str) {
    fs::remove_file(path).unwrap();
    File::create(path).unwrap().set_len(1 << 30).unwrap();
}

#[tokio::test]
async fn a_file_that_cannot_be_a_policy_is_not_read_and_can_be_mended() {
    let site = Site::new();
    let (file, values) = (site.path("efa.yaml"), site.path("values.yaml"));
    let good = "multinodeNetworking:\n  aws: {enabled: true}\n";
    fs::write(&file, AWS).unwrap();
    fs::write(&values, good).unwrap();
    let server = site.serve(&["--policy", &file, "--values", &values]).await;
    let client = site.client(&server);
    let before = interface(&client).await;
    let spoil: [(&str, Spoil, String); 3] = [
        (&file, make_pipe, format!("{file} is not a regular file")),
        (&file, make_huge, format!("{file} exceeds the 4 MiB limit for a policy")),
        (&values, make_huge, format!("{values} exceeds the 4 MiB limit for a values file")),
    ];
    for (count, (path, spoil, error)) in spoil.into_iter().enumerate() {
        spoil(path);
        reloaded(&server, "failure", count + 1).await;
        let verbose = server.get("/readyz?verbose").await.text();
        assert!(verbose.contains(&error), "no `{error}` in {verbose}");
        assert_eq!(interface(&client).await, before);
        fs::remove_file(path).unwrap();
        fs::write(path, if path == values { good } else { AWS }).unwrap();
        eventually("it is mended", async || server.is_up_to_date("policies").await).await;
    }
}

#[tokio::test]
async fn a_file_that_does_not_stop_changing_is_told_and_put_to_use_when_it_does() {
    let site = Site::new();
    let file = site.path("efa.yaml");
    fs::write(&file, AWS).unwrap();
    let server = site.serve(&["--policy", &file]).await;
    let client = site.client(&server);
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, path, beside) = (Arc::clone(&stop), file.clone(), site.path("beside"));
    let replace = move |interface: &str| {
        fs::write(&beside, with_interface(interface)).unwrap();
        fs::rename(&beside, &path).unwrap();
    };
    let writing = thread::spawn(move || {
        for count in 0.. {
            if stopped.load(Ordering::Relaxed) {
                break;
            }
            replace(&format!("eth{count}"));
            thread::sleep(Duration::from_millis(5));
        }
        replace("last0");
    });
    eventually("it is told", async || {
        server.get("/readyz?verbose").await.text().contains("the files of the policies keep changing")
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    writing.join().unwrap();
    eventually("the last version is in use", async || interface(&client).await == "last0").await;
    eventually("this is recorded", async || server.is_up_to_date("policies").await).await;
    // A busy machine may hold the writer for longer than it takes a file to be taken as settled.
    let (told, used) =
        (server.reloads("policies", "failure").await, server.reloads("policies", "success").await);
    assert!(told <= used, "it is told once until a version is in use: {told} failures, {used} versions");
}
