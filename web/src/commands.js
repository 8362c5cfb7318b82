// The command lines of each tab. Its texts are files of these names.

const MANIFEST = "manifest.yaml";
const POLICY = "policy.yaml";
const CASES = "tests/policy.yaml";

const sources = ({ policy, nodes, values }) => [
  ...(policy ? ["--policy", policy === "own" ? POLICY : policy] : []),
  ...(nodes.trim() ? ["--nodes", "nodes.json"] : []),
  ...(values.trim() ? ["--values", "values.yaml"] : []),
];
const mutate = (inputs, ...format) => ["mutate", "-f", MANIFEST, ...sources(inputs), ...format];
const lint = (inputs, ...format) => ["lint", "-f", MANIFEST, ...sources(inputs), ...format];
const own = (inputs) => ({ ...inputs, policy: "own", nodes: "", values: "" });

export const TABS = {
  log: {
    files: ({ text }, dropped) => (dropped.length ? named(dropped) : { log: text }),
    marks: {},
    views: {
      Report: (_inputs, files) => ["diagnose", ...Object.keys(files)],
      JSON: (_inputs, files) => ["diagnose", "-o", "json", ...Object.keys(files)],
    },
  },
  manifest: {
    files: ({ manifest, nodes, values, policy, ownPolicy }) => ({
      [MANIFEST]: manifest,
      "nodes.json": nodes,
      "values.yaml": values,
      ...(policy === "own" ? { [POLICY]: ownPolicy } : {}),
    }),
    marks: { manifest: (inputs) => lint(inputs, "-o", "json") },
    views: {
      Diff: (inputs) => mutate(inputs, "-o", "diff"),
      YAML: (inputs) => mutate(inputs),
      Patch: (inputs) => mutate(inputs, "-o", "patch"),
      Lint: (inputs) => lint(inputs),
    },
  },
  policy: {
    files: ({ policy, manifest, cases }) => ({ [POLICY]: policy, [MANIFEST]: manifest, [CASES]: cases }),
    marks: { policy: () => ["policy", "check", POLICY, "-o", "json"] },
    views: {
      Diagnostics: () => ["policy", "check", POLICY],
      Diff: (inputs) => mutate(own(inputs), "-o", "diff"),
      Explanation: () => ["policy", "explain", POLICY, "-f", MANIFEST],
      Cases: () => ["policy", "test", CASES, "--coverage"],
    },
  },
};

// Dropped files by names that are arguments: the program gets them as bytes of ASCII.
function named(dropped) {
  const files = {};
  for (const file of dropped) {
    const name = file.name.replace(/[^!-~]|^-/g, "_");
    files[name in files ? `${Object.keys(files).length}-${name}` : name] = file;
  }
  return files;
}
