//! Running `helm`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use fabric_injector::builtin;
use fabric_policy::Definition;
use fabric_tools::policy_list::listed;
use serde_json::{Value, json};

use crate::objects::read_objects;
use crate::shared_files::{schema_with_parameters_of, table_of};
use crate::{chart, programs};

/// The release in all tests. The plain manifests have the same names.
pub(crate) const RELEASE: &str = "fabric-injector";
pub(crate) const NAMESPACE: &str = "fabric-injector";
/// The repository of the image in all tests and in the plain manifest, of a name that no registry can have (RFC 2606).
pub(crate) const IMAGE: &str = "registry.invalid/fabric-injector";

#[derive(Debug)]
pub(crate) struct Helm {
    binary: PathBuf,
}

impl Helm {
    /// Finds `helm`, or returns why there is none.
    pub(crate) fn find() -> Result<Self, String> {
        programs::helm().map(|binary| Self { binary })
    }

    /// Renders the chart with these values: the objects as text, or what Helm says against it.
    pub(crate) fn template(&self, values: &Value) -> Result<String, String> {
        self.template_of(&chart(), RELEASE, NAMESPACE, values)
    }

    /// The same of the chart in another folder.
    pub(crate) fn template_from(&self, chart: &Path, values: &Value) -> Result<String, String> {
        self.template_of(chart, RELEASE, NAMESPACE, values)
    }

    /// The same of a release and a namespace with other names.
    pub(crate) fn template_in(
        &self,
        release: &str,
        namespace: &str,
        values: &Value,
    ) -> Result<String, String> {
        self.template_of(&chart(), release, namespace, values)
    }

    /// Renders a copy of the chart with another policy among the built-in ones.
    pub(crate) fn template_with_policy(&self, text: &str, values: &Value) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        copy(&chart(), folder.path());
        let mut policies =
            builtin::POLICIES.iter().map(|policy| policy.definition().unwrap()).collect::<Vec<_>>();
        policies.push(Definition::read("another.yaml", text).unwrap());
        let policies: Vec<_> = policies.iter().map(listed).collect();
        let policies = serde_json::to_value(&policies).unwrap();
        let policies = policies.as_array().unwrap();
        fs::write(folder.path().join("files/policies.json"), table_of(policies)).unwrap();
        fs::write(folder.path().join("values.schema.json"), schema_with_parameters_of(policies)).unwrap();
        self.template_of(folder.path(), RELEASE, NAMESPACE, values)
    }

    /// What people read after an install. `helm template` does not show it, so a copy of the chart has it as an object.
    pub(crate) fn notes(&self, values: &Value) -> String {
        let folder = tempfile::tempdir().unwrap();
        copy(&chart(), folder.path());
        let templates = folder.path().join("templates");
        fs::rename(templates.join("NOTES.txt"), folder.path().join("notes")).unwrap();
        let object = "kind: Notes\ntext: {{ tpl (.Files.Get \"notes\") . | toJson }}\n";
        fs::write(templates.join("notes.yaml"), object).unwrap();
        let objects = read_objects(&self.template_of(folder.path(), RELEASE, NAMESPACE, values).unwrap());
        objects.the("Notes")["text"].as_str().unwrap().to_owned()
    }

    /// Renders a package, with the image that it has.
    pub(crate) fn template_of_package(&self, package: &Path, values: &Value) -> String {
        let output = self.run_with(package, &template(RELEASE, NAMESPACE), values);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }

    fn template_of(
        &self,
        chart: &Path,
        release: &str,
        namespace: &str,
        values: &Value,
    ) -> Result<String, String> {
        let output = self.run(chart, &template(release, namespace), values);
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(String::from_utf8(output.stderr).unwrap())
        }
    }

    /// Lints the chart in this folder or package.
    pub(crate) fn lint(&self, chart: &Path, values: &Value) -> Output {
        self.run(chart, &["lint", "--strict", "--kube-version", "1.36.3", "--values", "-"], values)
    }

    /// Packages the chart into this folder.
    pub(crate) fn package(&self, folder: &Path) -> PathBuf {
        let output =
            self.run(&chart(), &["package", "--destination", folder.to_str().unwrap()], &Value::Null);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut files = fs::read_dir(folder).unwrap();
        files.next().unwrap().unwrap().path()
    }

    /// Runs `helm` on a chart with values on its standard input, and with an image unless they say which.
    fn run(&self, chart: &Path, arguments: &[&str], values: &Value) -> Output {
        let mut values = values.clone();
        if values.is_object() && values["image"]["repository"].is_null() {
            values["image"]["repository"] = json!(IMAGE);
        }
        self.run_with(chart, arguments, &values)
    }

    fn run_with(&self, chart: &Path, arguments: &[&str], values: &Value) -> Output {
        let mut command = Command::new(&self.binary);
        command.args(arguments).arg(chart).env_remove("KUBECONFIG");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(escaped(values).as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}

/// The values as JSON that YAML takes, too: `--set-file` takes every character, and a values file does not.
fn escaped(values: &Value) -> String {
    let escape = |character| match character {
        '\u{7f}'..='\u{ffff}' => format!("\\u{:04x}", u32::from(character)),
        character => character.to_string(),
    };
    values.to_string().chars().map(escape).collect()
}

/// The arguments that render a chart. A `helm` that was built without its release flags takes itself for one of an old
/// Kubernetes.
fn template<'a>(release: &'a str, namespace: &'a str) -> [&'a str; 8] {
    ["template", release, "--namespace", namespace, "--kube-version", "1.36.3", "--values", "-"]
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
