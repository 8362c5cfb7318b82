//! What is shown. The order is the one in which they run: what takes the servers away comes last.

mod advice;
mod audit;
mod bounds;
mod broken_policies;
mod certificates;
mod claims;
mod clients;
mod controllers;
mod diagnoses;
mod dry_runs;
mod examination;
mod faults;
mod faults_under_load;
mod generated_pairs;
mod hostile_clients;
mod installations;
mod missed;
mod named_objects;
mod namespaces;
mod neighbours;
mod node_watch;
mod oldest;
mod outages;
mod placement;
mod pod_security;
mod policy_reviews;
mod pools;
mod release;
mod rights;
mod settings;
mod slices;
mod token;
mod trials;
mod undecided;
mod unread_nodes;

use std::pin::Pin;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use super::cluster::Cluster;

/// A scenario, on a cluster.
pub(crate) type Scenario = for<'a> fn(&'a Cluster) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Scenarios by the names of their functions, each behind that of its module.
macro_rules! scenarios {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$((
            concat!(stringify!($module), "::", stringify!($name)),
            (|cluster| Box::pin($module::$name(cluster))) as Scenario,
        )),*]
    };
}

const SCENARIOS: &[(&str, Scenario)] = scenarios![
    controllers::pods_of_a_job_are_injected_and_bound_to_nodes_with_efa,
    controllers::pods_get_as_many_devices_as_their_machines_have,
    controllers::pods_of_a_stateful_set_are_injected_and_bound_to_nodes_with_efa,
    controllers::pods_without_the_annotation_never_reach_a_server,
    controllers::pods_of_excluded_namespaces_are_left_alone,
    diagnoses::the_logs_of_a_job_say_which_network_it_uses,
    diagnoses::what_the_pods_say_explains_their_logs,
    diagnoses::the_counters_of_adapters_prove_the_fabric_without_lines,
    diagnoses::the_files_of_nccl_prove_the_fabric_when_the_log_is_gone,
    diagnoses::each_fault_of_the_cluster_is_named,
    clients::warnings_reach_whoever_makes_the_pod,
    clients::pods_that_are_injected_as_they_should_be_come_with_what_was_added_alone,
    neighbours::pods_have_what_each_webhook_adds_whichever_is_called_first,
    clients::the_pods_of_a_policy_are_found_by_its_digest,
    advice::kubectl_apply_prints_the_advice,
    advice::five_hundred_containers_are_within_the_budget_of_the_api_server,
    advice::the_job_of_a_pod_gets_an_event,
    rights::servers_may_do_what_they_need_and_nothing_else,
    node_watch::servers_know_the_nodes_and_keep_them_when_they_may_no_longer_read_them,
    node_watch::a_lost_watch_keeps_the_nodes_and_recovers,
    node_watch::without_a_provider_the_nodes_choose_the_policy,
    unread_nodes::an_upgrade_stops_at_the_old_servers_if_the_new_ones_may_not_read_nodes,
    node_watch::pools_change_and_pods_get_what_they_offer,
    undecided::pods_that_ask_and_cannot_be_served_never_start_unawares,
    missed::each_way_in_which_a_pod_misses_the_fabric_is_reported,
    faults::nodes_and_lint_name_each_fault,
    slices::gpus_by_claim_are_known_and_kept_when_slices_may_no_longer_be_read,
    slices::the_class_of_a_claim_decides_and_is_kept_when_templates_may_no_longer_be_read,
    token::the_token_of_a_server_changes_the_bundle_and_nothing_else,
    release::its_test_passes,
    examination::a_healthy_installation_passes_and_each_fault_is_named,
    trials::a_pod_is_tried_for_the_nodes_of_each_policy,
    trials::check_fails_until_every_server_answers_in_the_configured_mode,
    trials::running_workloads_that_would_be_refused_are_listed,
    trials::policies_of_another_team_are_in_use_and_check_compares_their_triggers,
    release::an_upgrade_with_the_same_values_changes_nothing,
    release::servers_report_registered_conditions_of_other_policies,
    release::a_rollback_gives_pods_what_they_got_before,
    release::another_field_manager_applies_the_release_without_a_conflict,
    placement::servers_run_on_nodes_without_gpus_if_there_are_any,
    placement::a_job_survives_an_installation_that_finds_no_place,
    placement::an_upgrade_from_a_class_that_preempts_injects_every_pod,
    certificates::a_server_is_killed_and_every_pod_is_injected,
    certificates::servers_roll_and_every_pod_is_injected,
    certificates::an_emptied_bundle_and_a_deleted_secret_heal,
    outages::without_servers_annotated_pods_are_refused_and_all_others_start,
    certificates::certificates_and_authorities_rotate_and_every_pod_is_injected,
    certificates::durations_become_longer_and_every_pod_is_injected,
    controllers::with_a_wrong_ratio_a_job_stays_pending,
    pools::pods_get_the_devices_of_the_pool_that_they_select,
    claims::pods_carry_the_claim_of_a_policy_and_keep_their_own,
    claims::the_template_of_a_compute_domain_is_that_of_the_job,
    named_objects::what_a_pod_names_and_the_cluster_lacks_is_told_until_it_is_there,
    named_objects::domains_and_networks_that_pods_name_are_told_until_they_are_there,
    settings::the_file_of_a_container_has_the_settings_of_its_environment,
    pod_security::the_exception_admits_injected_pods_and_forbids_the_rest_of_baseline,
    dry_runs::every_workload_comes_out_as_mutate_says,
    generated_pairs::the_api_server_accepts_each_generated_pod_with_the_webhook,
    namespaces::a_label_of_the_namespace_opts_in,
    audit::pods_are_as_without_the_webhook_and_the_reports_as_with_it,
    bounds::what_the_server_refuses_for_a_length_the_api_server_refuses_too,
    oldest::the_oldest_release_takes_the_manifests_and_injects,
    outages::ignoring_failures_lets_pods_through_with_a_warning_of_the_guard,
    advice::no_workload_depends_on_the_advice,
    outages::the_guard_reports_pods_that_were_not_injected,
    outages::the_guard_denies_pods_that_were_not_injected,
    hostile_clients::clients_without_a_certificate_are_refused_and_the_api_server_is_not,
    hostile_clients::pods_are_injected_while_a_client_sends_no_request_to_its_end,
    release::uninstalled_it_leaves_nothing,
    faults_under_load::no_pod_is_admitted_as_it_came,
    installations::a_certificate_of_the_operator_is_served_and_replaced,
    installations::kubectl_applies_what_manifests_prints,
    installations::kubectl_applies_the_documented_overlay,
    installations::kubectl_applies_a_kustomization_of_another_cloud,
    policy_reviews::policies_that_are_wrong_are_refused_when_they_are_applied,
    policy_reviews::releases_with_other_policies_are_not_refused,
    broken_policies::with_managed_certificates_plain_pods_start_whatever_the_policies_are,
    broken_policies::with_a_secret_of_the_operator_plain_pods_start_whatever_the_policies_are,
    broken_policies::with_cert_manager_plain_pods_start_whatever_the_policies_are,
];

/// All of them, as something that can be run.
pub(crate) fn all(trial: &dyn Fn(&'static str, Scenario) -> Trial) -> Vec<Trial> {
    SCENARIOS.iter().map(|(name, scenario)| trial(name, *scenario)).collect()
}

/// The values of most scenarios: the servers look after certificate and registration.
fn values() -> Value {
    json!({"multinodeNetworking": {"aws": {"enabled": true}}, "server": {"log": "debug"}})
}
