#!/usr/bin/env python3
"""Prints the texts of warnings and errors in a checkout of NCCL, RCCL, aws-ofi-nccl or UCX that no cause of
`causes.yaml` has, so that the next release shows what is new.

usage: signatures/unmatched.py [--all] [--digest] DIR …

DIR is a work tree. A text that was looked at before is not new: `reviewed.tsv` has its digest, in a group that says why it
has no cause of its own. `--all` prints each text with its group, `--digest` with its digest, to add it there.
"""

import hashlib
import itertools
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
# Which files write about the network, a transport, the bootstrap or a plugin, and the macro and prefix of their lines.
NCCL = (r"src/(transport|misc|os|plugin|graph|gin|rma|tuning|bootstrap\.cc|mnnvl\.cc|init\.cc|proxy\.cc|include)\b",
        r"\bWARN(?:_LOC)?\(", "train-0:1:1 [0] x.cc:1 NCCL WARN ")
KINDS = {
    "src/transport/net_ib": NCCL,
    "src/transport/net_ib.cc": NCCL,
    "src/nccl_ofi_net.cpp": (r"src/", r"\bNCCL_OFI_WARN\(", "train-0:1:1 [0] f():1 NCCL WARN NET/OFI "),
    "src/ucp/core/ucp_worker.c": (r"src/(uct/(ib|tcp|cuda/cuda_ipc|rocm/ipc|sm|base)|ucp/(core|wireup|rma)|ucs/sys)/",
                                  r"\bucs_(?:error|fatal)\(", "[1.1] [train-0:1:0]  x.c:1 UCX  ERROR "),
}
# What a conversion may print: without these, a pattern that lists errors would not match.
VALUES = ["X", "Connection refused", "Cannot allocate memory", "Bad address", "Operation not supported", "No such device",
          "No route to host", "mlx5_0:1/RoCE", "/dev/shm/nccl-a", "creating", "attaching to"]
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
CONVERSION = re.compile(r"%[-+ #0-9.*]*(?:hh|h|ll|l|z|j|t)?([a-zA-Z])")


def causes():
    """The texts, pattern and exception of each cause in lines."""
    found, entry = [], {}
    for line in (HERE / "causes.yaml").read_text(encoding="utf-8").splitlines() + ["- end"]:
        if line.startswith("- "):
            if "contains" in entry:
                found.append(entry)
            entry = {}
        key, _, value = line.strip(" -").partition(": ")
        if key == "contains":
            entry[key] = json.loads(value)
        elif key == "follows" or (key, value) == ("explains", "[unknown]"):
            # Any error of a library is such a cause.
            entry.pop("contains", None)
        elif key in ("pattern", "unless"):
            value = value[1:-1].replace("''", "'") if value[0] == "'" else json.loads(value)
            entry[key] = re.compile(value.replace("(?<", "(?P<"))
    return found


def is_cause(line, tables):
    def matches(entry):
        return (any(text in line for text in entry["contains"]) and ("pattern" not in entry or entry["pattern"].search(line))
                and not ("unless" in entry and entry["unless"].search(line)))
    return any(map(matches, tables))


def calls(text, macro):
    """The format of each call of a macro: the strings up to the first other argument."""
    for call in re.finditer(macro, text):
        rest, parts = text[call.end():call.end() + 1200], []
        while True:
            gap = re.match(r'(?:\s|\\\n|PRI\w+|[A-Z][A-Z0-9_]{3,}|name\b)*(?=")', rest) if parts else re.match(r'[^";]{0,80}?(?=")', rest)
            string = STRING.match(rest, gap.end()) if gap else None
            if string is None:
                break
            parts.append((" " if re.search(r"[A-Z]", gap.group()) and parts else "") + string.group(1))
            rest = rest[string.end():]
        if parts:
            yield "".join(parts).replace("\\n", " ").replace('\\"', '"').strip()


def printed(form):
    """What a format may print."""
    for value in VALUES:
        yield CONVERSION.sub(lambda found: value if found.group(1) in "sm" else "12", form)


def main(arguments):
    tables = causes()
    rows = [row.split("\t") for row in (HERE / "reviewed.tsv").read_text(encoding="utf-8").splitlines()]
    reviewed = {digest: row[0] for row in rows if not row[0].startswith("#") for digest in row[1].split(" ")}
    show_all, folders = "--all" in arguments, [one for one in arguments if not one.startswith("--")]
    if not folders:
        sys.exit(__doc__)
    for folder in map(pathlib.Path, folders):
        kind = next((kind for path, kind in KINDS.items() if (folder / path).exists()), None)
        if kind is None:
            sys.exit(f"{folder}: this is none of NCCL, RCCL, aws-ofi-nccl and UCX")
        places, macro, prefix = kind
        count, seen = {}, set()
        for path in sorted(itertools.chain(*(folder.rglob(f"*.{ending}") for ending in ("c", "cc", "cpp", "h", "inl")))):
            name = path.relative_to(folder).as_posix()
            if not re.match(places, name) or "/test" in name or "windows" in name:
                continue
            for form in calls(path.read_text(encoding="utf-8", errors="replace"), macro):
                if (form in seen) or not re.search("[a-z]{3}", form):
                    continue
                seen.add(form)
                group = "matched" if any(is_cause(prefix + text, tables) for text in printed(form)) else None
                digest = hashlib.sha256(form.encode()).hexdigest()[:8]
                group = group or reviewed.get(digest, "new")
                count[group] = count.get(group, 0) + 1
                if group == "new" or show_all:
                    print("\t".join([group, name, form] + [digest] * ("--digest" in arguments)))
        print(f"{folder}: {', '.join(f'{number} {group}' for group, number in sorted(count.items()))}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
