// Prints the examples of the page as JSON: files of the repository, and the commit.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

import { parse } from "yaml";

const read = (path) => readFileSync(new URL(`../${path}`, import.meta.url), "utf8");

const LOGS = {
  "two nodes that use TCP": "13",
  "no route between adapters": "32",
  "NIXL over UCX": "form-nixl-ucx-healthy",
};
const MANIFESTS = [
  ["AWS: two nodes with EFA, LeaderWorkerSet", "deepseek-r1-lws", "aws-efa"],
  ["Azure: InfiniBand, Job", "nd-h100-job", "azure-infiniband"],
  ["Google Cloud: A3 High with TCPX, Job", "a3-high-job", "gcp-tcpx"],
  ["Google Cloud: A3 Ultra with gIB, LeaderWorkerSet", "a3-ultra-lws", "gcp-gib"],
  ["Oracle: SR-IOV", "jobset", "oci-sriov"],
  ["DigitalOcean: RoCE, Job", "doks-b300-job", "doks-roce"],
  ["On premises: rails, Job", "onprem-rails-job", "onprem-rdma"],
  ["MPIJob of NIM", "nim-mpijob", "aws-efa"],
  ["RayCluster", "raycluster", "aws-efa"],
];

// The nodes of the cases of policies, each machine once, as `kubectl get nodes -o json` prints them.
function machines() {
  const cases = ["nodes", "aws-efa-nodes"].flatMap((name) => parse(read(`policies/tests/${name}.yaml`)).cases);
  const lists = new Map();
  for (const { context } of cases) {
    const machine = context?.nodes?.[0]?.labels?.["node.kubernetes.io/instance-type"];
    if (!machine || lists.has(machine)) continue;
    const items = context.nodes.map(({ labels, capacity }, at) => ({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: `node-${at}`, labels },
      status: { capacity, allocatable: capacity },
    }));
    lists.set(machine, JSON.stringify({ apiVersion: "v1", kind: "List", items }, undefined, 2));
  }
  return [...lists].map(([title, text]) => ({ title, text }));
}

const log = Object.entries(LOGS).map(([title, name]) => ({
  title,
  texts: { text: read(`signatures/cases/${name}.log`) },
}));
const manifest = MANIFESTS.map(([title, name, policy]) => ({
  title,
  policy,
  texts: { manifest: read(`tests/workloads/${name}.yaml`) },
}));
const commit = execFileSync("git", ["rev-parse", "--short=12", "HEAD"], { encoding: "utf8" }).trim();
console.log(JSON.stringify({ commit, log, manifest, nodes: machines() }));
