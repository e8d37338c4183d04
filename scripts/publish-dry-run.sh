#!/usr/bin/env bash
# Packages every crate that is published, in the order of their dependencies, and uploads nothing.
# Usage: scripts/publish-dry-run.sh [--no-verify]; without it, each package is also built.
set -euo pipefail
cd "$(dirname "$0")/.."
# A commit is published, so nothing may be uncommitted. `--workspace` leaves out crates with
# `publish = false`, and takes packages of this workspace for those that are not published yet.
exec "${CARGO:-cargo}" publish --workspace --dry-run --locked "$@"
