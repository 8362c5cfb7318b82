package main

import "strings"

// candidates are values that some field of a pod accepts and others do not.
var candidates = []any{
	// Names.
	"", "a", "A", "0", "-", "_", ".", "..", "a-", "-a", "a.b", "a..b", "a-b", "a_b", "_a", "a--b", "A.b", "a b", " a",
	"a ", "\u00e4", "a/b", "A/b", "a/b/c", "/a", "a/", "a=b", "a:b", "a@b", "a$b", "a\n", "\u212a", "1a", "123", "*",
	strings.Repeat("a", 15), strings.Repeat("a", 16), strings.Repeat("a", 63), strings.Repeat("a", 64),
	strings.Repeat("a", 65), strings.Repeat("a", 253), strings.Repeat("a", 254), strings.Repeat("a", 63) + "/a",
	"a/" + strings.Repeat("a", 63), "a/" + strings.Repeat("a", 64), strings.Repeat("a", 4096),
	// Paths.
	"/", "../a", "a/..", "a/../b", "/a/../b", "..a", "a/..b", "./a", "...", "a/",
	// Addresses and domains.
	"10.0.0.1", "010.0.0.1", "10.0.0", "::1", "::ffff:10.0.0.1", "fe80::1%a", "2001:DB8::1", "a.example.com.", "_a.b.",
	// Fields and resources.
	"metadata.name", "metadata.labels", "metadata.labels['a']", "metadata.labels['A/b']", "metadata.annotations['A/b']",
	"metadata.annotations['']", "metadata.uid['a']", "spec.nodeName", "spec.host", "spec.restartPolicy", "status.podIP",
	"limits.cpu", "requests.memory", "limits.hugepages-2Mi", "requests.nvidia.com/gpu", "cpu", "memory",
	"kernel.shm_rmid_forced", "net/core/somaxconn",
	// Quantities.
	"1", "1m", "1000m", "1k", "1000", "1024", "1Ki", "1Mi", "1024Ki", "1e3", "0.5", "-1", "2Mi", "3Mi", "2", "1Gi",
	"100Ti", "1.5Gi", "8n",
	// Values of enumerations.
	"Always", "IfNotPresent", "Never", "OnFailure", "None", "Default", "ClusterFirst", "ClusterFirstWithHostNet", "TCP",
	"UDP", "SCTP", "tcp", "HTTP", "HTTPS", "File", "FallbackToLogsOnError", "Bidirectional", "HostToContainer",
	"Disabled", "Enabled", "IfPossible", "RuntimeDefault", "Localhost", "Unconfined", "OnRootMismatch", "Recursive",
	"Merge", "Strict", "NoExecute", "NoSchedule", "PreferNoSchedule", "Equal", "Exists", "In", "NotIn", "DoesNotExist",
	"Gt", "Lt", "DoNotSchedule", "ScheduleAnyway", "Honor", "Ignore", "Memory", "ReadWriteOnce", "ReadOnlyMany",
	"ReadWriteMany", "ReadWriteOncePod", "Block", "Filesystem", "DirectoryOrCreate", "Directory", "FileOrCreate",
	"Socket", "CharDevice", "BlockDevice", "v1", "v2", "IPC_LOCK", "CAP_SYS_ADMIN",
	// Numbers.
	0, 1, -1, 2, 100, 101, 511, 512, 599, 600, 65535, 65536, 2147483647, 2147483648, 4294967296, 4294967297,
	9223372036854775807, 0.5,
	// Values of other types.
	true, false, []any{}, map[string]any{}, []any{"a"}, map[string]any{"a": "b"},
}
