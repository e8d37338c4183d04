#!/usr/bin/env python3
"""Checks .github without a forge: workflows and forms parse, steps are valid shell and call scripts
and make's targets that exist, jobs that compile restore a cache. Also that CITATION.cff has the
version of Cargo.toml.

Needs PyYAML (Debian: python3-yaml) and bash."""

import pathlib
import re
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
EXPRESSION = re.compile(r"\$\{\{.*?\}\}")
CACHE = "Swatinem/rust-cache@"
COMPILES = re.compile(r"\b(cargo|make) |scripts/(check-features|playground)")
# A release is built from its sources alone.
UNCACHED = "Release"


def mistakes_of_step(step):
    """Returns the mistakes of one step of a job."""
    if ("run" in step) == ("uses" in step):
        return [f"a step has one of run and uses: {step}"]
    if "uses" in step:
        # Tags can be moved.
        is_pinned = re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"])
        return [] if is_pinned else [f"no commit of {step['uses']}"]
    script = EXPRESSION.sub("EXPRESSION", step["run"])
    found = []
    shell = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
    if shell.returncode != 0:
        found.append(f"{shell.stderr.strip()}: {script}")
    for target in re.findall(r"\bmake ([a-z-]+)", script):
        if target not in TARGETS:
            found.append(f"the Makefile has no target {target}")
    for path in re.findall(r"\bscripts/[\w.-]+", script):
        if not (ROOT / path).is_file():
            found.append(f"{path} does not exist")
    return found


def lacks_cache(job):
    """Returns whether a job compiles and restores no cache."""
    compiles = any(COMPILES.search(step.get("run", "")) for step in job["steps"])
    return compiles and not any(step.get("uses", "").startswith(CACHE) for step in job["steps"])


def mistakes_of_workflow(workflow):
    """Returns the mistakes of a workflow's jobs."""
    # YAML 1.1 reads the key `on` as true.
    found = [] if workflow.get(True) else ["it has no events"]
    for name, job in workflow["jobs"].items():
        for needed in [job.get("needs", [])] if isinstance(job.get("needs"), str) else job.get("needs", []):
            if needed not in workflow["jobs"]:
                found.append(f"{name} needs the job {needed}, which does not exist")
        if "timeout-minutes" not in job:
            found.append(f"{name} has no timeout-minutes")
        if workflow["name"] != UNCACHED and lacks_cache(job):
            found.append(f"{name} compiles without a cache of registry and target")
        for step in job["steps"]:
            found.extend(f"{name}: {mistake}" for mistake in mistakes_of_step(step))
    return found


def main():
    found = []
    workflows = sorted((ROOT / ".github/workflows").glob("*.yml"))
    for path in workflows:
        mistakes = mistakes_of_workflow(yaml.safe_load(path.read_text()))
        found.extend(f"{path.name}: {mistake}" for mistake in mistakes)
    for path in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")):
        form = yaml.safe_load(path.read_text())
        if path.name != "config.yml" and not {"name", "description", "body"} <= form.keys():
            found.append(f"{path.name}: a form has name, description and body")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    version = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    if str(citation["version"]) != version:
        found.append(f"CITATION.cff has version {citation['version']}, Cargo.toml {version}")
    if len(workflows) < 2:
        found.append("there are no workflows")
    print("\n".join(found) or f"{len(workflows)} workflows are well-formed")
    sys.exit(bool(found))


main()
