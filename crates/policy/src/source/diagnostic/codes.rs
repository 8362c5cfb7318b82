//! The codes of errors. `docs/check.md` has a row for each.

macro_rules! codes {
    ($(#[$of:meta])* $list:ident: $($name:ident = $code:literal,)*) => {
        $(pub const $name: &str = $code;)*
        $(#[$of])*
        pub const $list: &[&str] = &[$($code),*];
    };
}

codes! {
    /// The codes of errors, which keep a policy from loading.
    ERRORS:
    UNREADABLE_FILE = "unreadable_file",
    YAML_SYNTAX = "yaml_syntax",
    AMBIGUOUS_SCALAR = "ambiguous_scalar",
    DUPLICATE_KEY = "duplicate_key",
    UNKNOWN_KEY = "unknown_key",
    MISSING_KEY = "missing_key",
    WRONG_TYPE = "wrong_type",
    INVALID_VALUE = "invalid_value",
    DUPLICATE_NAME = "duplicate_name",
    INVALID_EXPRESSION = "invalid_expression",
    UNKNOWN_NAME = "unknown_name",
    TOO_EARLY = "too_early",
    NOT_A_POD_FIELD = "not_a_pod_field",
    FIELD_NOT_SETTABLE = "field_not_settable",
    MISPLACED_EDIT = "misplaced_edit",
    CONFLICTING_RULES = "conflicting_rules",
    EXTENSION = "extension",
    UNKNOWN_BASE = "unknown_base",
    NO_VALUE = "no_value",
    SAMPLE_FAILED = "sample_failed",
    NOT_IDEMPOTENT = "not_idempotent",
    TOO_COSTLY = "too_costly",
}

codes! {
    /// The codes of warnings, which `policy check` reports.
    WARNINGS:
    TEMPLATE_BRACES = "template_braces",
    TEXT_NOT_EXPRESSION = "text_not_expression",
    ODD_TEXT = "odd_text",
    ALWAYS_FALSE = "always_false",
    ALWAYS_TRUE = "always_true",
    UNLIKE_TYPES = "unlike_types",
    UNKNOWN_ENUM_VALUE = "unknown_enum_value",
    UNKNOWN_TABLE_KEY = "unknown_table_key",
    UNKNOWN_ANNOTATION = "unknown_annotation",
    UNKNOWN_LABEL = "unknown_label",
    UNKNOWN_RESOURCE = "unknown_resource",
    UNKNOWN_VARIABLE = "unknown_variable",
    QUANTITY_AS_TEXT = "quantity_as_text",
    UNUSED_PARAMETER = "unused_parameter",
    UNUSED_VARIABLE = "unused_variable",
    UNUSED_SUPPRESSION = "unused_suppression",
    UNUSED_PART = "unused_part",
    UNKNOWN_SETTING_VARIABLE = "unknown_setting_variable",
    VOLUME_WITHOUT_MOUNT = "volume_without_mount",
    MOUNT_WITHOUT_VOLUME = "mount_without_volume",
    VOLUME_WITHOUT_REQUEST = "volume_without_request",
    MODE_IN_MOUNT_PATH = "mode_in_mount_path",
    DECIMAL_MODE = "decimal_mode",
    TINY_AMOUNT = "tiny_amount",
    UNRESOLVED_REFERENCE = "unresolved_reference",
    SIDECAR_KEEPS_JOB = "sidecar_keeps_job",
    INCOMPLETE_CONTAINER = "incomplete_container",
    DEVICE_WITHOUT_IPC_LOCK = "device_without_ipc_lock",
    REQUEST_WITHOUT_LIMIT = "request_without_limit",
    GAP_IN_RANGES = "gap_in_ranges",
    NO_DEVICES = "no_devices",
    LOST_VALUE = "lost_value",
    CONFLICTING_FIELDS = "conflicting_fields",
    DEFAULT_STAYS = "default_stays",
    ALWAYS_REPORTED = "always_reported",
    NEVER_INJECTS = "never_injects",
    POLICIES_OVERLAP = "policies_overlap",
}
