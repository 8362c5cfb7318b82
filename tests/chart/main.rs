//! The Helm chart, and the plain manifest that is rendered from it.
//!
//! The tests that render the chart need `helm`; `tests/control-plane/README.md` lists where they find one. Without it
//! they are reported as ignored, or fail if `CI_REQUIRE_CONTROL_PLANE=1` is set. The other tests always run.
//!
//! `UPDATE_DEPLOY=1 cargo test --test chart` writes the plain manifest and the files of the chart. Read the difference
//! before committing it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]
#![deny(dead_code, reason = "a test that is in neither list below would never run")]

mod advice;
mod agreement;
mod alerts;
mod cases;
mod clusters;
mod conditions;
mod helm;
mod images;
mod invariants;
mod metrics;
mod names;
mod objects;
mod options;
mod pods;
#[path = "../control-plane/programs.rs"]
mod programs;
mod refused;
mod refused_policies;
mod registration;
mod release;
mod rendered;
mod rights;
mod schema;
mod selection;
mod shared_files;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use helm::Helm;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// Tests by the names of their functions, each with its module.
macro_rules! tests {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$((concat!(stringify!($module), "::", stringify!($name)), $module::$name)),*]
    };
}

/// A test that renders the chart.
type HelmTest = fn(&Helm);
/// A test that also runs `promtool`.
type PromtoolTest = fn(&Helm, &Path);

const ALWAYS: &[(&str, fn())] = tests![
    images::the_image_has_the_program_and_nothing_else,
    images::the_user_of_the_image_is_that_of_the_chart,
    images::the_program_of_the_image_is_that_of_the_profile_release,
    images::the_image_is_built_by_the_toolchain_that_the_program_needs_or_a_newer_one,
    metrics::every_panel_of_the_dashboard_has_known_metrics,
    metrics::the_panels_of_the_dashboard_have_their_place,
    shared_files::no_file_is_a_link,
    shared_files::the_table_of_policies_is_what_the_program_lists,
    shared_files::the_conditions_have_the_forms_of_the_program_and_the_kinds_that_lint_knows,
    shared_files::the_table_of_machines_has_those_that_policies_name,
    shared_files::the_schema_has_the_parameters_that_the_program_lists,
    release::a_release_has_the_programs_their_sboms_and_the_chart_with_checksums,
    release::the_tag_of_a_release_is_the_version_of_program_and_chart,
    release::the_workflows_have_pinned_actions_and_few_rights,
    release::the_workflows_run_the_checks_and_the_scripts,
    rendered::the_objects_have_the_labels_of_the_chart_and_none_of_helm,
    rendered::the_kustomization_has_the_file,
    rendered::the_documented_overlay_replaces_the_image_of_the_file,
    schema::every_value_is_in_the_schema_and_every_block_is_closed,
    schema::no_provider_has_a_value_so_that_each_parameter_follows_the_node,
    schema::the_page_on_values_has_every_value,
    schema::an_option_of_the_server_is_set_by_the_chart_or_a_further_argument,
    schema::the_chart_has_the_version_of_the_program,
];

const WITH_HELM: &[(&str, HelmTest)] = tests![
    agreement::helm_and_the_program_agree_about_every_built_in_policy,
    agreement::helm_and_the_program_agree_about_policies_of_an_operator,
    agreement::helm_and_the_program_agree_about_extensions,
    conditions::the_built_in_policies_need_one_condition_for_all_clouds,
    conditions::every_part_of_a_match_is_asked_for_and_each_policy_has_its_term,
    conditions::equal_terms_stand_once_and_the_names_of_policies_decide_the_order,
    clusters::aks_leaves_a_configuration_with_the_annotation_alone,
    clusters::openshift_chooses_the_users,
    clusters::eks_with_a_network_plugin_of_its_own_reaches_ports_of_the_nodes,
    clusters::gke_reaches_the_port_of_the_kubelet_in_pods_too,
    clusters::nodes_without_a_cloud_have_the_provider_that_is_enabled,
    clusters::in_audit_mode_no_pod_depends_on_the_webhook_and_there_is_no_guard,
    clusters::a_label_of_the_namespace_opts_in,
    clusters::the_servers_take_no_place_of_others,
    images::an_image_has_the_version_of_the_chart_or_what_is_set,
    images::the_chart_of_a_checkout_has_no_image,
    invariants::helm_has_nothing_against_the_chart,
    invariants::values_for_aws_give_objects_that_belong_together,
    invariants::values_for_azure_give_objects_that_belong_together,
    invariants::values_for_gcp_give_objects_that_belong_together,
    invariants::values_for_oci_give_objects_that_belong_together,
    invariants::two_servers_are_spread_over_zones_and_nodes,
    invariants::servers_reach_the_api_server_only_if_they_need_it,
    invariants::the_ports_are_open_to_the_clients_that_the_operator_names,
    invariants::every_object_is_in_the_namespace_of_the_release_but_what_the_test_may_do_elsewhere,
    metrics::every_alert_has_known_metrics_and_a_description,
    metrics::the_alert_on_reconciliation_exists_with_managed_certificates_only,
    metrics::the_alert_on_expiry_fires_after_the_renewal_was_due,
    metrics::every_pod_without_the_fabric_is_counted_by_its_reason,
    metrics::the_alert_on_reconciliation_does_not_outlive_the_failures,
    metrics::each_alert_links_to_its_section,
    metrics::alerts_on_nodes_and_advice_exist_where_they_can_fire,
    metrics::the_dashboard_in_the_cluster_is_the_file,
    names::names_that_look_like_numbers_are_names,
    names::the_test_can_be_left_out,
    names::there_is_no_test_in_an_excluded_namespace,
    names::notes_warn_about_the_namespace_of_the_release,
    names::without_a_provider_notes_say_that_the_nodes_choose_and_name_no_cloud,
    shared_files::the_packaged_chart_renders_what_the_folder_does,
    refused::exactly_one_provider_may_be_enabled,
    refused::the_block_takes_the_parameters_of_the_policies_and_no_others,
    refused::helm_and_the_program_take_the_same_values_of_parameters,
    refused::other_values_have_their_type_and_their_key,
    refused::there_is_one_certificate_and_its_ca_is_known,
    refused::further_arguments_are_options_that_the_chart_does_not_set,
    refused::further_arguments_have_values_that_the_program_takes,
    refused::no_label_is_set_twice,
    refused::the_name_of_the_service_is_one_that_api_servers_take,
    refused::conditions_and_selectors_are_those_that_api_servers_take,
    refused::no_default_is_removed_by_null,
    refused::the_namespace_is_for_the_servers_alone,
    refused::an_extension_has_a_base,
    refused::an_extra_policy_does_not_fight_another,
    refused_policies::what_the_chart_reads_of_a_policy_has_the_form_that_servers_require,
    refused_policies::a_policy_that_only_servers_refuse_leaves_plain_pods_alone,
    refused_policies::what_a_policy_may_have_is_taken,
    refused_policies::what_yaml_merges_is_written_out,
    advice::events_need_a_role_and_the_api_and_no_dry_run,
    advice::the_templates_of_a_workload_and_its_owner_decide_whether_it_is_sent,
    advice::plain_workloads_are_not_sent_and_those_with_something_to_be_said_are,
    advice::the_triggers_and_resources_of_an_operator_count,
    advice::every_kind_that_lint_knows_is_sent_and_its_pods_are_watched,
    options::variables_and_egress_reach_the_servers,
    options::the_durations_of_certificate_and_scrapes_are_set,
    options::accounts_and_roles_can_be_those_of_another_team,
    options::policies_of_a_config_map_have_the_conditions_of_their_triggers,
    options::the_pod_of_the_test_has_labels_annotations_and_priority_of_the_servers,
    options::invalid_options_are_refused,
    options::the_chart_describes_itself,
    options::the_documented_values_are_taken,
    options::the_test_can_be_skipped,
    registration::who_writes_the_bundle_is_whoever_makes_the_certificate,
    release::the_chart_of_a_release_has_its_image_by_digest,
    rendered::the_file_is_what_the_chart_renders,
    rendered::manifests_prints_the_objects_that_helm_installs,
    rights::a_server_may_write_three_objects_read_nodes_and_create_events_and_nothing_else,
    selection::the_policies_of_the_enabled_provider_are_in_use,
    selection::a_new_file_in_the_folder_is_a_provider_without_another_change,
    selection::a_policy_of_the_operator_is_in_use_beside_it_or_alone,
    selection::a_value_beyond_the_limit_of_an_extension_is_refused_by_the_servers,
    selection::what_the_operator_sets_arrives_and_what_he_does_not_set_follows_the_node,
];

const WITH_PROMTOOL: &[(&str, PromtoolTest)] = tests![alerts::alerts_fire_for_the_series_that_they_are_about];

fn main() -> ExitCode {
    let always = ALWAYS.iter().map(|&(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    let with_helm = WITH_HELM.iter().map(|&(name, test)| {
        Trial::ignorable_test(name, move || completed(Helm::find().map(|helm| test(&helm))))
    });
    let with_promtool = WITH_PROMTOOL.iter().map(|&(name, test)| {
        let found = || Ok((Helm::find()?, programs::find("promtool")?));
        Trial::ignorable_test(name, move || completed(found().map(|(helm, promtool)| test(&helm, &promtool))))
    });
    let all = always.chain(with_helm).chain(with_promtool).collect();
    libtest_mimic::run(&Arguments::from_args(), all).exit_code()
}

/// The outcome of a test, or of the search for the programs that it needs.
fn completed(tried: Result<(), String>) -> Result<Completion, Failed> {
    match tried {
        Ok(()) => Ok(Completion::Completed),
        Err(why) if programs::required() => Err(Failed::from(why)),
        Err(why) => Ok(Completion::ignored_with(why)),
    }
}

/// The folder of the project.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn chart() -> PathBuf {
    root().join("deploy/helm/fabric-injector")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns true if the tests write the files instead of comparing them.
fn updates() -> bool {
    std::env::var_os("UPDATE_DEPLOY").is_some()
}

/// Compares a file with what it should be, or writes it.
fn compare_or_write(path: &Path, wanted: &str) {
    if updates() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, wanted).unwrap();
        return;
    }
    let seen = fs::read_to_string(path).unwrap_or_default();
    let line = seen.lines().zip(wanted.lines()).position(|(seen, wanted)| seen != wanted);
    let line = line.unwrap_or_else(|| seen.lines().count().min(wanted.lines().count()));
    assert!(
        seen == wanted,
        "{} is not in step, from line {}:\n  is        {:?}\n  should be {:?}\n\
         hint: UPDATE_DEPLOY=1 cargo test --test chart",
        path.display(),
        line + 1,
        seen.lines().nth(line),
        wanted.lines().nth(line)
    );
}
