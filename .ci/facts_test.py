#!/usr/bin/env python3
"""Tests of `.ci/facts` with repositories in a temporary folder. Run: python3 .ci/facts_test.py"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KARPENTER = "website/content/en/preview/reference/instance-types.md"
AGENTBAKER = "pkg/agent/datamodel/gpu_components.go"
AWS = """
  parameters:
    efaDevicesPerGPU: {default: 1}
  machines:
    pool:
      "*": {efaDevicesPerGPU: 7}
    node.kubernetes.io/instance-type:
      p5.*: {efaDevicesPerGPU: 0}
      "*p5.48xlarge": {efaDevicesPerGPU: 4, chip: x}
      # A comment.
      "*p9.48xlarge, p9.x*": {chip: y,
        efaDevicesPerGPU: 1}  # Another.
      g5.*: {efaDevicesPerGPUs: 3, chip: z}
    nvidia.com/gpu.product:
      A: {efaDevicesPerGPU: {2-4: 1}}
  rules: []
"""
AZURE = """
  machines:
    node.kubernetes.io/instance-type:
      Standard_ND*isr_H100_v5: {rdmaDevicesPerGPU: 1}
      Standard_ND*_H100_v5: {rdmaDevicesPerGPU: 0}
"""


def instance(name, efa, gpus):
    return (f"### `{name}`\n#### Labels\n |karpenter.k8s.aws/instance-gpu-name|x|\n#### Resources\n"
            f" |nvidia.com/gpu|{gpus}|\n |vpc.amazonaws.com/efa|{efa}|\n")


def git(directory, *arguments):
    author = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    run = subprocess.run(["git", "-C", directory, *author, *arguments], capture_output=True, text=True, check=True)
    return run.stdout.strip()


class Facts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.write("project/policies/aws-efa.yaml", AWS)
        self.write("project/policies/azure-infiniband.yaml", AZURE)
        os.makedirs(os.path.join(self.folder, "project/.ci"))
        shutil.copy(os.path.join(ROOT, ".ci/facts"), os.path.join(self.folder, "project/.ci/facts"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def commit(self, name, files):
        """A commit of these files in the repository of this name. The hash of the first."""
        os.makedirs(self.path(name), exist_ok=True)
        git(self.path(name), "init", "--quiet")
        for path, text in files.items():
            self.write(f"{name}/{path}", text)
        git(self.path(name), "add", "--all")
        git(self.path(name), "commit", "--quiet", "--message", "test")
        return git(self.path(name), "rev-parse", f"HEAD:{next(iter(files))}")

    def sources(self, *rows, known=()):
        lines = ["| repository | path | blob | read on | used for |", "|---|---|---|---|---|"]
        lines += [f"| {repository} | `{path}` | {blob} | 2026-11-24 | `aws-efa`: a `test` |"
                  for repository, path, blob in rows]
        differences = [f"| {repository} | {name} | because |" for repository, name in known]
        self.write("project/docs/sources.md", "\n".join(
            ["# Sources", "", "## Files", "", *lines, "", "## Differences of the tables", "",
             "| repository | name | why |", "|---|---|---|", *differences, ""]))

    def run_with(self, *arguments):
        run = subprocess.run([sys.executable, self.path("project/.ci/facts"), *arguments],
                             capture_output=True, text=True, check=False)
        self.assertNotIn("Traceback", run.stderr)
        return run.returncode, run.stdout + run.stderr

    def test_what_is_unchanged_and_not_looked_at_is_counted(self):
        blob = self.commit("a", {"file": "one\n"})
        self.sources(("o/a", "file", blob), ("o/b", "file", blob))
        status, output = self.run_with(f"o/a={self.path('a')}")
        self.assertEqual(status, 0, output)
        self.assertIn("1 sources unchanged, 0 changed, 1 not looked at", output)
        git(self.path("a"), "remote", "add", "origin", "https://github.com/O/a.git")
        self.assertEqual(self.run_with(self.path("a"))[0], 0)
        git(self.folder, "clone", "--quiet", "--bare", "a", "bare")
        self.assertEqual(self.run_with(f"o/a={self.path('bare')}")[0], 0)

    def test_a_change_has_both_hashes_and_the_difference(self):
        old = self.commit("a", {"file": "one\n"})
        new = self.commit("a", {"file": "two\n"})
        self.sources(("o/a", "file", old))
        status, output = self.run_with(f"o/a={self.path('a')}")
        self.assertEqual(status, 1)
        for part in (f"was {old}, is {new}", "-one", "+two", "o/a file", "used for: `aws-efa`: a `test`;",
                     "0 sources unchanged, 1 changed"):
            self.assertIn(part, output)

    def test_a_clone_without_the_former_version_says_so(self):
        old = self.commit("a", {"file": "one\n"})
        self.commit("a", {"file": "two\n"})
        git(self.folder, "clone", "--quiet", "--depth", "1", f"file://{self.path('a')}", "shallow")
        self.sources(("o/a", "file", old))
        status, output = self.run_with(f"o/a={self.path('shallow')}")
        self.assertEqual(status, 1)
        self.assertIn("needs a full clone", output)

    def test_a_file_that_is_gone_and_a_hash_that_is_unknown_are_named(self):
        blob = self.commit("a", {"file": "one\n"})
        self.sources(("o/a", "file", "unknown"), ("o/a", "gone", blob))
        status, output = self.run_with(f"o/a={self.path('a')}")
        self.assertEqual(status, 1)
        self.assertIn(f"no hash in docs/sources.md yet; now it is {blob}", output)
        self.assertIn(f"gone from HEAD; it was {blob}", output)

    def test_the_types_of_karpenter_are_compared(self):
        types = instance("p5.4xlarge", 1, 1) + instance("p5.48xlarge", 32, 8) + instance("p8.48xlarge", 8, 8)
        blob = self.commit("k", {KARPENTER: types})
        repository = "aws/karpenter-provider-aws"
        self.sources((repository, KARPENTER, blob), known=[(repository, "p9.48xlarge")])
        status, output = self.run_with(f"{repository}={self.path('k')}")
        self.assertEqual(status, 1)
        self.assertIn("3 types with NVIDIA GPUs or Neuron chips, 3 of them with EFA; ours names 2 types", output)
        self.assertIn("types: 3 differ, 1 of them", output)
        self.assertIn("p5.4xlarge: 1 interfaces for 1 accelerators is 1, and ours has 0", output)
        self.assertIn("p8.48xlarge: only in theirs: 8 interfaces, 8 accelerators", output)
        known = [(repository, name) for name in ("p5.4xlarge", "p5.48xlarge", "p8.48xlarge", "p9.48xlarge")]
        self.sources((repository, KARPENTER, blob), known=known)
        status, output = self.run_with(f"{repository}={self.path('k')}")
        self.assertEqual(status, 1)
        self.assertIn("no longer different, to remove from docs/sources.md: p5.48xlarge", output)

    def test_the_sizes_of_agentbaker_are_compared(self):
        sizes = ("standard_nd96isr_h100_v5", "standard_nd96is_h100_v5", "standard_nd1r_x_v9")
        blob = self.commit("b", {AGENTBAKER: "".join(f'\t"{name}": true,\n' for name in sizes)})
        self.sources(("Azure/AgentBaker", AGENTBAKER, blob))
        status, output = self.run_with(f"Azure/AgentBaker={self.path('b')}")
        self.assertEqual(status, 1)
        self.assertIn("3 sizes; ours gives adapters to 1 of them", output)
        self.assertIn("sizes: 1 differ, 0 of them as docs/sources.md says", output)
        self.assertIn("standard_nd1r_x_v9: only in theirs", output)

    def test_a_table_in_another_form_is_no_success(self):
        blob = self.commit("b", {AGENTBAKER: "package other\n"})
        self.sources(("Azure/AgentBaker", AGENTBAKER, blob))
        status, output = self.run_with(f"Azure/AgentBaker={self.path('b')}")
        self.assertEqual(status, 1)
        self.assertIn("cannot compare", output)
        self.write("project/policies/azure-infiniband.yaml", AZURE.replace("PerGPU: 0", "PerGPU: {2: 0}"))
        status, output = self.run_with(f"Azure/AgentBaker={self.path('b')}")
        self.assertEqual(status, 2)
        self.assertIn("policies/azure-infiniband.yaml: the table of `rdmaDevicesPerGPU` is not as", output)

    def test_wrong_input_has_a_message(self):
        blob = self.commit("a", {"file": "one\n"})
        self.sources(("o/a", "file", blob))
        os.makedirs(self.path("empty"))
        a, empty = self.path("a"), self.path("empty")
        for arguments, message in (
                ((), "name at least one checkout"),
                (("--all",), "name at least one checkout"),
                (("o/a=/nowhere",), "no such directory: /nowhere"),
                ((f"o/a={empty}",), f"not a git repository, or one of another user: {empty}"),
                ((a,), f"no remote `origin` names the repository: write OWNER/NAME={a}"),
                ((f"o/other={a}",), "docs/sources.md lists no file of o/other"),
                ((f"o/a={a}", f"O/A={a}"), "two checkouts of o/a")):
            status, output = self.run_with(*arguments)
            self.assertEqual((status, message in output), (2, True), output)
        self.sources(("o/a", "z", blob), ("o/a", "file", blob))
        self.assertEqual(self.run_with(f"o/a={a}")[0], 2)
        self.assertEqual(self.run_with("--help")[0], 0)

    def test_the_committed_table_has_the_form(self):
        script = os.path.join(ROOT, ".ci/facts")
        run = subprocess.run([script, "o/none=" + ROOT], capture_output=True, text=True, check=False)
        self.assertIn("lists no file of o/none", run.stderr)


if __name__ == "__main__":
    unittest.main()
