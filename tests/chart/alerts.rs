//! When alerts fire: `promtool` evaluates their rules for the series of `alerts.yaml`.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::cases::{enabled, render, with};
use crate::helm::Helm;
use crate::root;

pub(crate) fn alerts_fire_for_the_series_that_they_are_about(helm: &Helm, promtool: &Path) {
    let objects = render(helm, &with(enabled("aws"), &json!({"prometheusRule": {"enabled": true}})));
    let folder = tempfile::tempdir().unwrap();
    // YAML reads JSON.
    fs::write(folder.path().join("rules.yaml"), objects.the("PrometheusRule")["spec"].to_string()).unwrap();
    fs::copy(root().join("tests/chart/alerts.yaml"), folder.path().join("alerts.yaml")).unwrap();
    let mut command = Command::new(promtool);
    let tried = command.args(["test", "rules", "alerts.yaml"]).current_dir(folder.path()).output().unwrap();
    let said = [tried.stdout, tried.stderr].concat();
    assert!(tried.status.success(), "{}", String::from_utf8_lossy(&said));
}
