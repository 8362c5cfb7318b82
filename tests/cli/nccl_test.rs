//! The Job that measures the network. `signatures/nccl-test.sh` runs as it is with a real `sshd` and Open MPI.

use serde_json::{Value, json};

use super::{TRIGGER, assert_file_snapshot, mutate, run, sections};

/// The documents of an output, read by another program's rules: as JSON.
fn documents(arguments: &[&str]) -> Vec<Value> {
    let text = String::from_utf8(run(&[&["nccl-test"], arguments].concat(), "").exits(0).stdout).unwrap();
    let json = mutate(&["--policy", "aws-efa", "-o", "json"], text).exits(0).stdout;
    serde_json::Deserializer::from_slice(&json).into_iter().map(Result::unwrap).collect()
}

#[test]
fn the_job_of_the_test_is_injected_as_it_is_printed() {
    let documents =
        documents(&["--nodes", "4", "--node-selector", "node.kubernetes.io/instance-type=p5.48xlarge"]);
    let kinds: Vec<&str> = documents.iter().map(|document| document["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Service", "Secret", "Job"]);
    let job = &documents[2]["spec"];
    assert_eq!((&job["completions"], &job["completionMode"]), (&json!(4), &json!("Indexed")));
    let pod = &job["template"];
    assert_eq!(pod["metadata"]["annotations"][TRIGGER], "true");
    assert_eq!(pod["spec"]["subdomain"], documents[0]["metadata"]["name"]);
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["resources"]["limits"]["vpc.amazonaws.com/efa"], "32");
    assert_eq!(container["command"][2], include_str!("../../signatures/nccl-test.sh"));
    assert!(
        container["env"].as_array().unwrap().contains(&json!({"name": "MPI_INTERFACE", "value": "eth0"}))
    );
    assert_eq!(pod["spec"]["volumes"][0]["secret"]["defaultMode"], 0o400);
    // Nothing of it is what `lint` warns about.
    let text = run(&["nccl-test", "--nodes", "2", "--name", "a", "--namespace", "b"], "").exits(0);
    run(&["lint", "--fail-on-warning"], String::from_utf8(text.stdout).unwrap()).exits(0);
}

#[test]
fn each_key_is_new_and_fits_its_public_part() {
    use base64::Engine;
    let keys: Vec<String> = (0..2)
        .map(|_| {
            let secret = documents(&[]).swap_remove(1);
            let line = secret["stringData"]["key.pub"].as_str().unwrap().to_owned();
            let (name, bytes) = line.trim_end().split_once(' ').unwrap();
            let bytes = base64::prelude::BASE64_STANDARD.decode(bytes).unwrap();
            let key = rcgen::KeyPair::from_pem(secret["stringData"]["key"].as_str().unwrap()).unwrap();
            assert_eq!((name, &bytes[4..23]), ("ecdsa-sha2-nistp256", &b"ecdsa-sha2-nistp256"[..]));
            assert!(bytes.ends_with(key.public_key_raw()));
            line
        })
        .collect();
    assert_ne!(keys[0], keys[1]);
}

#[test]
fn what_no_cluster_accepts_is_refused() {
    let answers = [
        ["--nodes", "1"],
        ["--gpus", "0"],
        ["--name", "A b"],
        ["--name", "1a"],
        ["--name", "a.b"],
        ["--largest", "8X"],
        ["--largest", "4M"],
        ["--interface", "a b"],
        ["--gpu-resource", "gpu"],
        ["--image", ""],
    ]
    .map(|wrong| (wrong.join(" "), run(&[&["nccl-test"], &wrong[..]].concat(), "").recorded()));
    assert_file_snapshot!(sections(answers));
}
