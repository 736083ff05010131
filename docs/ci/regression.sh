#!/bin/sh
# Converts a folder of clips and compares the result with reviewed files.
set -u

usage() {
    cat <<'USAGE'
usage: regression.sh [--renew] [--keep DIR] [CLIPS [GOLDEN]] [-- OPTIONS...]

Converts CLIPS (a folder or file; default clips) to glTF text and compares the
result by meaning with GOLDEN (default golden).

  --renew      replace the .gltf and .bin files in GOLDEN by the new result
               instead of comparing: after a change that was meant
  --keep DIR   leave the result in DIR, which must be empty or missing
  -- OPTIONS   for `anim2gltf diff`: --max-mm 0.1, --html page.html, --json ...

Environment:
  ANIM2GLTF          the program (default anim2gltf, from PATH)
  ANIM2GLTF_OPTIONS  options of the conversion, split at spaces, for example
                     "--skeleton rig.yft --bake 30"

Exit code: 0 equal (or renewed), 1 different, 2 could not compare (also: clips
that could not be converted).
USAGE
}

fail() {
    echo "regression.sh: $1" >&2
    exit 2
}

program=${ANIM2GLTF:-anim2gltf}
renew=no
keep=
clips=
golden=
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        --renew) renew=yes ;;
        --keep)
            [ $# -ge 2 ] || fail "--keep needs a folder"
            keep=$2
            shift
            ;;
        --) shift; break ;;
        -*) usage >&2; fail "unknown option $1" ;;
        *)
            if [ -z "$clips" ]; then clips=$1
            elif [ -z "$golden" ]; then golden=$1
            else usage >&2; fail "too many arguments: $1"
            fi
            ;;
    esac
    shift
done
clips=${clips:-clips}
golden=${golden:-golden}

command -v "$program" >/dev/null 2>&1 || fail "$program is not there; install it or set ANIM2GLTF"
[ -e "$clips" ] || fail "$clips is not there"
if [ "$renew" = no ]; then
    [ -d "$golden" ] || fail "$golden is not there; make it with --renew"
fi

# A folder that was never used: outputs of clips that are gone must not be compared.
if [ -n "$keep" ]; then
    mkdir -p "$keep" || fail "cannot make $keep"
    [ -z "$(ls -A "$keep")" ] || fail "$keep is not empty"
    out=$keep
else
    out=$(mktemp -d) || fail "cannot make a temporary folder"
    trap 'rm -rf "$out"' EXIT
    trap 'exit 2' HUP INT TERM
fi

# Exit code 1 of the conversion says that clips failed, not that they differ.
# shellcheck disable=SC2086
"$program" "$clips" -o "$out" --to gltf --quiet ${ANIM2GLTF_OPTIONS:-} || fail "not everything in $clips was converted"

if [ "$renew" = yes ]; then
    mkdir -p "$golden" || fail "cannot make $golden"
    find "$golden" -type f \( -name '*.gltf' -o -name '*.bin' \) -exec rm -f {} + || fail "cannot clear $golden"
    cp -R "$out"/. "$golden"/ || fail "cannot write $golden"
    # What was written and why is of this run, not of the result.
    rm -f "$golden"/manifest.json "$golden"/report.txt
    echo "renewed $golden; review and commit it"
    exit 0
fi

"$program" diff "$golden" "$out" "$@"
