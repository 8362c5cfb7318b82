// Sixty inputs: logs, manifests with policies, nodes and values, and policies, right and wrong.

import { readFileSync, readdirSync } from "node:fs";

export function inputs(repository) {
  const names = (folder) => readdirSync(new URL(folder, repository)).sort();
  const read = (path) => readFileSync(new URL(path, repository), "utf8");
  const spread = (list, count) => list.filter((_, at) => Math.floor((at * count) / list.length) !== Math.floor(((at - 1) * count) / list.length));
  const small = (path) => read(path).length < 20_000;
  const logs = names("signatures/cases/").filter((name) => name.endsWith(".log") && small(`signatures/cases/${name}`));
  const manifests = [
    ...names("tests/workloads/").map((name) => `tests/workloads/${name}`),
    ...names("tests/manifests/").map((name) => `tests/manifests/${name}`),
  ].filter((path) => /\.(yaml|json)$/.test(path) && small(path) && !path.includes("bom") && !path.includes("crlf"));
  const broken = names("tests/corpus/broken/").filter((name) => name.endsWith(".yaml") && small(`tests/corpus/broken/${name}`));
  const policies = names("policies/").filter((name) => name.endsWith(".yaml")).map((name) => name.slice(0, -5));
  const values = "multinodeNetworking:\n  aws:\n    enabled: true\n    ipcLock: false\n";
  return [
    ...spread(logs, 20).map((name) => ({ tab: "log", texts: { text: read(`signatures/cases/${name}`) } })),
    ...spread(manifests, 20).map((path, at) => ({
      tab: "manifest",
      policy: at % 7 === 0 ? "" : policies[at % policies.length],
      texts: { manifest: read(path), values: at % 7 === 0 ? values : "" },
    })),
    ...spread(broken, 20).map((name) => ({
      tab: "policy",
      texts: { policy: read(`tests/corpus/broken/${name}`), manifest: read("tests/workloads/pod.yaml") },
    })),
  ];
}
