#!/usr/bin/env bash
# Installs what tests and benches need beside cargo into target/test-tools: the Khronos validator, gltfpack and
# glTF-Transform (npm), Blender as a Python module (PyPI; needs Python 3.11), assimp and the libraries that Blender
# links (Debian, as root). What is there already is left alone. Where one cannot be had, its tests say so and are skipped, except in CI
# (CI=true), where this script fails.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools="$PWD/target/test-tools"
mkdir -p "$tools"
step() { echo "tools: $*"; }
missing() {
  echo "tools: MISSING $*" >&2
  if [ "${CI:-}" = true ]; then exit 1; fi
}

# The first Python 3.11 on the path (a name may be there and not work: version managers leave such).
find_python() {
  python=""
  for candidate in python3.11 python3; do
    if "$candidate" -c 'import sys, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' >/dev/null 2>&1; then
      python="$candidate"
      return
    fi
  done
}

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  wanted=(assimp-utils libxrender1 libxxf86vm1 libxfixes3 libxi6 libxkbcommon0 libsm6 libice6 libgl1 libegl1)
  # Node and Python too, where the machine has none that would do.
  command -v npm >/dev/null || wanted+=(nodejs npm)
  find_python
  [ -n "$python" ] || wanted+=(python3 python3-venv)
  absent=()
  for package in "${wanted[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok' || absent+=("$package")
  done
  if [ "${#absent[@]}" -gt 0 ]; then
    step "${absent[*]} (Debian)"
    (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${absent[@]}") \
      >"$tools/apt.log" 2>&1 || { tail -n 5 "$tools/apt.log" >&2; missing "${absent[*]}"; }
  fi
fi

# Name and version. All in one command: npm takes away what a later one does not name.
npm_packages=(
  gltf-validator@2.0.0-dev.3.10 gltfpack@1
  @gltf-transform/core@4 @gltf-transform/extensions@4 @gltf-transform/functions@4
)
npm_absent=false
for package in "${npm_packages[@]}"; do
  [ -d "$tools/node_modules/${package%@*}" ] || npm_absent=true
done
if $npm_absent; then
  if command -v npm >/dev/null; then
    step "${npm_packages[*]} (npm)"
    npm install --silent --no-audit --no-fund --no-save --prefix "$tools" "${npm_packages[@]}" \
      || missing "the npm packages ${npm_packages[*]}"
  else
    missing "npm, for ${npm_packages[*]}"
  fi
fi

find_python
if [ -z "$python" ]; then
  missing "Python 3.11, for Blender as a module (bpy 5.0.1)"
elif ! "$tools/python/bin/python" -c 'import bpy, szio' >/dev/null 2>&1; then
  step "bpy 5.0.1 and szio (PyPI; Blender is about 350 MB)"
  rm -rf "$tools/python"
  "$python" -m venv "$tools/python"
  "$tools/python/bin/pip" install --quiet --disable-pip-version-check bpy==5.0.1 szio \
    && "$tools/python/bin/python" -c 'import bpy, szio' >/dev/null \
    || missing "bpy 5.0.1 and szio"
fi
step "ready"
