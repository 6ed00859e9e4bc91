#!/usr/bin/env bash
# Builds the wheel and checks it. `check.sh` runs the checks of .ci/run; `check.sh soak` adds
# Spark, the oldest Scrapy and requests-cache, other versions of Python, and more kills.
#
# Needs Python 3.11 or later with venv, Rust and a C compiler. pyright needs Node.js; the tests of
# servers need an fm-serve, which `cargo build -p fm-serve` builds or FM_SERVE names; Spark needs
# Java (openjdk-17-jre-headless). All else comes from PyPI into a folder below target/.
set -euo pipefail
cd "$(dirname "$0")"
how=${1:-gate}
root=$(cd ../.. && pwd)
work=${CARGO_TARGET_DIR:-$root/target}/python
python=${PYTHON:-python3}
mkdir -p "$work"

say() { printf -- '-- %s\n' "$1"; }

# A separate virtual environment for each list of packages: NAME PYTHON PACKAGE...
environment() {
    local name=$1 with=$2
    shift 2
    local key
    key=$({ "$with" -VV; printf '%s\n' "$@"; cat tests/requirements.txt; } | cksum | cut -d ' ' -f 1)
    venv=$work/$name-$key
    if [ ! -e "$venv/ready" ]; then
        rm -rf "$venv"
        "$with" -m venv "$venv"
        "$venv/bin/pip" install -q --disable-pip-version-check "$@"
        touch "$venv/ready"
    fi
    "$venv/bin/pip" install -q --disable-pip-version-check --force-reinstall --no-deps "$wheel"
}

say "the wheel"
rm -rf "$work/wheels"
"$python" -m pip wheel -q --disable-pip-version-check --no-deps -w "$work/wheels" .
wheel=$(echo "$work"/wheels/filemap_store-*-abi3-*.whl)
[ -f "$wheel" ] || { echo "no abi3 wheel was built: $wheel" >&2; exit 1; }
"$python" -m zipfile -l "$wheel" | grep '\.dist-info/sboms/.*\.json' > /dev/null || { echo "the wheel has no SBOM" >&2; exit 1; }

environment main "$python" -r tests/requirements.txt

types() {
    "$venv/bin/ruff" format --check -q python tests examples bench
    "$venv/bin/ruff" check -q python tests examples bench
    "$venv/bin/mypy"
    "$venv/bin/pyright" --pythonpath "$venv/bin/python" -p pyproject.toml
    (cd "$work" && "$venv/bin/python" -m mypy.stubtest filemap._native)
    "$venv/bin/abi3audit" --strict "$wheel"
}

# One process each: Scrapy installs an event loop permanently. All at once: each mostly waits, and
# uses one processor.
say "format, types and ABI; tests"
parts=(types "tests/test_*.py" tests/scrapy tests/requests_cache)
part() {
    if [ "$1" = types ]; then
        types
    else
        # shellcheck disable=SC2086
        FILEMAP_CHECK=$how "$venv/bin/python" -X dev -m pytest -q -p no:cacheprovider $1
    fi
}
running=()
trap 'kill -- "${running[@]/#/-}" 2> /dev/null || true' EXIT
# Separate process groups, which end with this script.
set -m
for number in "${!parts[@]}"; do
    (set -e; part "${parts[number]}") > "$work/part$number.log" 2>&1 < /dev/null &
    running+=($!)
done
set +m
failed=
for number in "${!parts[@]}"; do
    wait "${running[number]}" || failed="$failed ${parts[number]};"
    say "${parts[number]}"
    cat "$work/part$number.log"
done
trap - EXIT
[ -z "$failed" ] || { echo "failed:$failed see above" >&2; exit 1; }

if [ "$how" = soak ]; then
    # PySpark is 400 MB: too much for the gate.
    for spark in 'pyspark==4.1.0' pyspark; do
        say "Spark: $spark"
        environment spark "$python" -r tests/requirements.txt "$spark"
        FILEMAP_SPARK=1 "$venv/bin/python" -X dev -m pytest -q -p no:cacheprovider tests/test_spark.py
    done
    "$venv/bin/mypy" python/filemap/spark.py
    "$venv/bin/pyright" --pythonpath "$venv/bin/python" python/filemap/spark.py
    FILEMAP_CHECK=$how FILEMAP_SPARK=1 "$venv/bin/python" -X dev -m pytest -q -p no:cacheprovider tests/test_docs.py

    # PyTorch brings CUDA's libraries, gigabytes. `-W default`, since these packages warn of
    # changes in Python.
    say "PyTorch and Hugging Face's datasets"
    environment training "$python" -r tests/requirements.txt torch datasets
    FILEMAP_CHECK=$how FILEMAP_TRAINING=1 "$venv/bin/python" -m pytest -q -p no:cacheprovider \
        -W default tests/test_docs.py

    say "other versions of Python"
    for version in 3.12 3.13 3.14 3.15; do
        other=
        for found in "$(command -v "python$version")" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python3; do
            # A launcher of pyenv may exist without the version.
            if "$found" -c 'import venv, ensurepip' > /dev/null 2>&1; then other=$found; fi
        done
        if [ -n "$other" ]; then
            environment "python$version" "$other" pytest
            "$venv/bin/python" -X dev -m pytest -q -p no:cacheprovider tests/test_[!d]*.py
        else
            echo "skipped: there is no python$version"
        fi
    done

    say "the oldest versions that are supported"
    # That version of Scrapy does not run with a newer Twisted.
    environment oldest "$python" pytest 'scrapy==2.13.0' 'twisted==25.5.0' 'requests-cache==1.2.0'
    FILEMAP_CHECK=$how "$venv/bin/python" -X dev -m pytest -q -p no:cacheprovider tests/scrapy tests/requests_cache

    say "the source distribution"
    "$venv/bin/pip" install -q maturin
    rm -rf "$work/sdist"
    "$venv/bin/maturin" sdist -o "$work/sdist"
    "$venv/bin/pip" install -q --force-reinstall --no-deps "$work"/sdist/filemap_store-*.tar.gz
    "$venv/bin/python" -m pytest -q -p no:cacheprovider tests/test_[!d]*.py
fi
