//! `fabric-injector nccl-test`: a Job that measures the network between nodes.

use anyhow::Context;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::Args;
use serde_json::{Map, Value};

use crate::builtin;

use crate::cli::ExitStatus;
use crate::cli::output::Output;
use crate::cli::parse::{annotation, namespace, number, valid};

const TEMPLATE: &str = include_str!("../../../signatures/nccl-test.yaml");
const SCRIPT: &str = include_str!("../../../signatures/nccl-test.sh");
/// The smallest message of the script, in bytes.
const SMALLEST: u64 = 8 << 20;
/// The type of the key, and its curve, as OpenSSH calls them (RFC 5656).
const KEY_TYPE: &str = "ecdsa-sha2-nistp256";
const CURVE: &str = "nistp256";

/// Print an indexed Job with a headless Service and the key of its ranks, which runs `all_reduce_perf` over several
/// nodes
///
/// Nothing is applied. `fabric-injector diagnose --job nccl-test --follow` judges the log.
#[derive(Debug, Args)]
#[command(after_long_help = "To run: fabric-injector nccl-test --nodes 2 | kubectl apply -f -\n\n\
    The pods are annotated, so that the webhook injects them. Where there is no webhook, inject the output: \
    fabric-injector nccl-test --nodes 2 | fabric-injector mutate --policy NAME | kubectl apply -f -")]
pub(crate) struct Arguments {
    /// The number of nodes
    #[arg(long, value_name = "COUNT", default_value = "2", value_parser = number::<u32>(2, 1000))]
    nodes: u32,
    /// The GPUs of a node, all of which the test needs
    #[arg(long, value_name = "COUNT", default_value = "8", value_parser = number::<u32>(1, 64))]
    gpus: u32,
    /// The resource name of GPUs [default: that of the built-in policies]
    #[arg(long, value_name = "NAME", value_parser = resource)]
    gpu_resource: Option<String>,
    /// An image with nccl-tests, Open MPI and an SSH server, for the architecture of the nodes
    #[arg(
        long,
        value_name = "IMAGE",
        default_value = "ghcr.io/coreweave/nccl-tests:13.1.0-devel-ubuntu22.04-nccl2.29.2-1-0bf62c2",
        value_parser = clap::builder::NonEmptyStringValueParser::new()
    )]
    image: String,
    /// The name of the objects
    #[arg(long, value_name = "NAME", default_value = "nccl-test", value_parser = service)]
    name: String,
    /// The namespace of the objects [default: that of the client that applies them]
    #[arg(short, long, value_name = "NAME", value_parser = namespace)]
    namespace: Option<String>,
    /// A label of the nodes, such as `node.kubernetes.io/instance-type=p5.48xlarge`; may be given several times
    #[arg(long = "node-selector", value_name = "KEY=VALUE", value_parser = annotation)]
    node_selector: Vec<(String, String)>,
    /// The largest message, from 8M
    #[arg(long, value_name = "SIZE", default_value = "8G", value_parser = size)]
    largest: String,
    /// The interface by which Open MPI connects the pods
    #[arg(long, value_name = "NAME", default_value = "eth0", value_parser = interface)]
    interface: String,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let key = rcgen::KeyPair::generate().context("a key cannot be generated")?;
    let policy = builtin::POLICIES.first().context("there is no policy")?.definition()?;
    let (trigger, _) = policy.matcher.any_annotation.first().context("the policy has no annotation")?;
    let gpus = arguments.gpu_resource.as_ref().or(policy.gpus.resources.first());
    let gpus = gpus.context("the policy has no resource of GPUs")?;
    let quoted = |text: &str| Value::from(text).to_string();
    let labels: Map<String, Value> =
        arguments.node_selector.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    let selector = if labels.is_empty() {
        String::new()
    } else {
        format!("\n      nodeSelector: {}", Value::Object(labels))
    };
    let namespace = arguments.namespace.as_ref().map(|name| format!(", namespace: {}", quoted(name)));
    let values = [
        ("@NAMESPACE@", namespace.unwrap_or_default()),
        ("@NAME@", quoted(&arguments.name)),
        ("@NODES@", arguments.nodes.to_string()),
        ("@GPUS@", arguments.gpus.to_string()),
        ("@RESOURCE@", quoted(gpus)),
        ("@TRIGGER@", quoted(trigger)),
        ("@SELECTOR@", selector),
        ("@IMAGE@", quoted(&arguments.image)),
        ("@LARGEST@", quoted(&arguments.largest)),
        ("@KEY@", quoted(&key.serialize_pem())),
        ("@PUBLIC@", quoted(&public(key.public_key_raw()))),
        ("@INTERFACE@", quoted(&arguments.interface)),
        ("@SCRIPT@", SCRIPT.trim_end().replace('\n', "\n              ")),
    ];
    // A comment at the beginning is for maintainers of the template.
    let template = TEMPLATE.split_once('\n').map_or(TEMPLATE, |(_, rest)| rest);
    let text = values.iter().fold(template.to_owned(), |text, (name, value)| text.replace(name, value));
    output.data(text.as_bytes())?;
    Ok(ExitStatus::Done)
}

/// A line of `authorized_keys` for the point of a public key.
fn public(point: &[u8]) -> String {
    let mut bytes = Vec::new();
    for part in [KEY_TYPE.as_bytes(), CURVE.as_bytes(), point] {
        bytes.extend_from_slice(&u32::try_from(part.len()).unwrap_or_default().to_be_bytes());
        bytes.extend_from_slice(part);
    }
    format!("{KEY_TYPE} {}\n", BASE64_STANDARD.encode(bytes))
}

/// A size as nccl-tests reads it.
fn size(text: &str) -> Result<String, String> {
    let digits = text.strip_suffix(['K', 'M', 'G']).unwrap_or(text);
    let unit: u64 = match text.as_bytes().last() {
        Some(b'K') => 1 << 10,
        Some(b'M') => 1 << 20,
        Some(b'G') => 1 << 30,
        _ => 1,
    };
    let number = if digits.starts_with('+') { None } else { digits.parse::<u64>().ok() };
    let is_enough = number.is_some_and(|number| number.saturating_mul(unit) >= SMALLEST);
    valid(is_enough, text, "must be a number of bytes from `8M`, such as `512M` or `8G`")
}

/// The name of a Service.
fn service(text: &str) -> Result<String, String> {
    let has_letter = text.starts_with(|c: char| c.is_ascii_lowercase());
    let is_name = has_letter && text.len() <= 60 && namespace(text).is_ok();
    valid(is_name, text, "write at most 60 lower case letters, digits and `-`, a letter first")
}

/// The name of an interface.
fn interface(text: &str) -> Result<String, String> {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = !text.is_empty() && text.len() < 16 && text.bytes().all(is_of_name);
    valid(is_name, text, "must be the name of an interface, such as `eth0`")
}

/// The name of an extended resource.
fn resource(text: &str) -> Result<String, String> {
    let is_name = text.split_once('/').is_some_and(|(domain, name)| !domain.is_empty() && !name.is_empty());
    valid(is_name, text, "must have a domain, as `example.com/gpu` has")
}
