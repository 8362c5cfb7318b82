//! What stands in `certs/` works, and has no key in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cel::{Context, Program};
use fabric_engine::admission::sample_review;
use fabric_injector::builtin;
use fabric_injector::policy_sources::PolicySources;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use serde_json::{Value, json};

use super::serve_docs::options;
use super::server::Server;
use super::{ROOT, command, documents, file, run_in};

/// The name by which an API server calls.
const NAME: &str = "fabric-injector.fabric-injector.svc";

/// The documents of a manifest of the folder.
fn manifest(name: &str) -> Vec<Value> {
    documents(&file(&format!("certs/{name}")))
}

/// The variables of `development.env`.
fn variables() -> BTreeMap<String, String> {
    let text = file("certs/development.env");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pairs = lines.map(|line| line.split_once('=').unwrap_or_else(|| panic!("no `=` in `{line}`")));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The commands of the shell blocks of the README that begin with this, joined where they are broken.
fn commands(begin: &str) -> Vec<String> {
    let text = file("certs/README.md");
    let blocks = text.split("```sh\n").skip(1).map(|block| block.split_once("```").unwrap().0);
    let joined: String = blocks.collect::<String>().replace("\\\n", " ");
    joined.lines().filter(|line| line.starts_with(begin)).map(str::to_owned).collect()
}

fn webhook() -> Value {
    manifest("development-webhook.yaml").remove(0)["webhooks"][0].clone()
}

#[test]
fn no_file_has_a_private_key_in_it() {
    let mut names = Vec::new();
    for entry in fs::read_dir(Path::new(ROOT).join("certs")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // Made by whoever develops here, and ignored by git.
        if name == "development" {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("PRIVATE KEY-----"), "{name}");
        names.push(name);
    }
    names.sort();
    let expected =
        [".gitignore", "README.md", "cert-manager.yaml", "development-webhook.yaml", "development.env"];
    assert_eq!(names, expected);
    let ignored = file("certs/.gitignore");
    for pattern in ["/development/", "*.key", "*.pem"] {
        assert!(ignored.lines().any(|line| line == pattern), "git ignores {pattern}");
    }
}

#[test]
fn the_objects_of_cert_manager_belong_together() {
    let objects = manifest("cert-manager.yaml");
    let found = |kind: &str, name: &Value| {
        let matches = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == *name;
        objects.iter().find(matches).unwrap_or_else(|| panic!("no {kind} {name}"))
    };
    let kinds: Vec<_> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Issuer", "Certificate", "Issuer", "Certificate"]);
    for object in &objects {
        assert_eq!(object["apiVersion"], "cert-manager.io/v1");
        assert_eq!(object["metadata"]["namespace"], "fabric-injector");
    }
    let serving = found("Certificate", &json!("fabric-injector"));
    let issuer = found("Issuer", &serving["spec"]["issuerRef"]["name"]);
    let is_of_issuer = |object: &&Value| object["spec"]["secretName"] == issuer["spec"]["ca"]["secretName"];
    let ca = objects.iter().find(is_of_issuer).expect("a certificate for the CA of the issuer");
    let above = found("Issuer", &ca["spec"]["issuerRef"]["name"]);
    assert_eq!(above["spec"], json!({"selfSigned": {}}));
    for certificate in [serving, ca] {
        assert_eq!(certificate["spec"]["issuerRef"]["kind"], "Issuer");
        assert_eq!(certificate["spec"]["issuerRef"]["group"], "cert-manager.io");
        assert_eq!(certificate["spec"]["privateKey"]["algorithm"], "ECDSA");
        assert_eq!(certificate["spec"]["privateKey"]["size"], 256);
    }
    assert_eq!(ca["spec"]["isCA"], true);
    assert_eq!(serving["spec"]["dnsNames"], json!([NAME, format!("{NAME}.cluster.local")]));
    assert_eq!(serving["spec"]["privateKey"]["rotationPolicy"], "Always");
    assert_eq!(serving["spec"]["usages"], json!(["digital signature", "server auth"]));
    let hours = |certificate: &Value, key: &str| -> u32 {
        certificate["spec"][key].as_str().unwrap().strip_suffix('h').unwrap().parse().unwrap()
    };
    assert!(hours(serving, "renewBefore") < hours(serving, "duration"));
    assert!(hours(ca, "renewBefore") >= hours(serving, "duration"), "nothing outlives its CA");
    let readme = file("certs/README.md");
    assert!(readme.contains("cert-manager.io/inject-ca-from: fabric-injector/fabric-injector\n"));
    for name in [NAME, serving["spec"]["secretName"].as_str().unwrap()] {
        assert!(readme.contains(name), "the README names {name}");
    }
}

#[test]
fn the_webhook_configuration_is_one_of_the_api() {
    let text = file("certs/development-webhook.yaml");
    assert_eq!(text.matches("caBundle: CA_BUNDLE\n").count(), 1);
    assert_eq!(commands("sed \"s|CA_BUNDLE|").len(), 1, "the README says how to fill it in");
    let object = documents(&text.replace("caBundle: CA_BUNDLE", "caBundle: Q0E=")).remove(0);
    let typed: MutatingWebhookConfiguration = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), object, "no field is misspelt");
    let webhook = webhook();
    assert_eq!(webhook["sideEffects"], "None");
    assert_eq!(webhook["admissionReviewVersions"], json!(["v1"]));
    assert!(webhook["clientConfig"]["url"].as_str().unwrap().ends_with("/mutate"));
}

#[test]
fn the_match_condition_lets_through_every_pod_that_a_policy_is_for_and_no_others() {
    let expression = webhook()["matchConditions"][0]["expression"].as_str().unwrap().to_owned();
    let program = Program::compile(&expression).unwrap();
    let asked = |object: &Value| {
        let mut context = Context::default();
        context.add_variable("object", object).unwrap();
        program.execute(&context).unwrap() == cel::Value::Bool(true)
    };
    let mut asked_for = 0;
    for policy in builtin::POLICIES.iter().chain(builtin::PARTS) {
        let triggers = documents(policy.text)[0]["spec"]["match"]["anyAnnotation"].clone();
        for (key, value) in triggers.as_object().into_iter().flatten() {
            asked_for += 1;
            for value in [value, &json!("of another value, which is worth a warning")] {
                let pod = json!({"metadata": {"annotations": {key.as_str(): value}}});
                assert!(asked(&pod), "{pod}");
            }
        }
    }
    assert!(asked_for >= 2, "{asked_for}");
    for metadata in [json!({}), json!({"annotations": {}}), json!({"annotations": {"a": "true"}})] {
        assert!(!asked(&json!({"metadata": metadata})), "{metadata}");
    }
}

#[test]
fn the_commands_of_the_readme_make_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let commands = commands("fabric-injector certs ");
    assert_eq!(commands.len(), 3, "{commands:?}");
    for command in &commands {
        let args: Vec<&str> = command.split_whitespace().skip(1).collect();
        run_in(folder.path(), &args, "").exits(0);
    }
}

#[test]
fn the_development_server_starts_and_answers_the_development_webhook() {
    let variables = variables();
    let known: Vec<String> = options().into_iter().filter_map(|option| option.variable).collect();
    for name in variables.keys() {
        assert!(known.contains(name), "`serve` has no {name}");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("certs")).unwrap();
    let issue = commands("fabric-injector certs certs/development").remove(0);
    run_in(folder.path(), &issue.split_whitespace().skip(1).collect::<Vec<_>>(), "").exits(0);
    let mut serve = command(folder.path());
    serve.arg("serve").envs(&variables);
    // The ports of the file may be taken on this machine; which addresses they are on stays.
    for name in ["FABRIC_INJECTOR_LISTEN", "FABRIC_INJECTOR_ADMIN_LISTEN"] {
        let (address, port) = variables[name].rsplit_once(':').unwrap();
        assert_eq!(address, "127.0.0.1");
        assert!(port == "8443" || port == "8080");
        serve.env(name, format!("{address}:0"));
    }
    let server = Server::start(&mut serve);
    assert_eq!(server.get_until("/readyz", "ok"), "ok\n");
    let url = webhook()["clientConfig"]["url"].as_str().unwrap().to_owned();
    let host = url.strip_prefix("https://").unwrap().split(':').next().unwrap().to_owned();
    let set = PolicySources {
        policies: vec![variables["FABRIC_INJECTOR_POLICY"].clone()],
        ..PolicySources::default()
    };
    let review = sample_review(&set.load().unwrap().policies()[0]);
    let ca = folder.path().join(&variables["FABRIC_INJECTOR_TLS_DIR"]).join("ca.crt");
    let answer = server.post(&ca, &host, &review);
    assert_eq!(answer["response"]["patchType"], "JSONPatch", "{answer}");
}
