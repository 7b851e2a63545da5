#!/usr/bin/env bash
# The first hour on a GPU of sm_100a or sm_103a, which no one has run these kernels on: from what needs no GPU to what
# needs all of it, so that the first line that fails says where to look.
#
#   benchmarks/first_contact.sh [LOGS]        all; logs go to the folder LOGS (default: build/first_contact)
#   DRY=1 benchmarks/first_contact.sh [LOGS]  without a GPU: some probes in the simulator; of the tests that need the GPU
#                                             only that they are found, of the suite only its plan: DRY, not PASS
#
#   1  machine     the driver knows the GPU, assemblers are there (minitile doctor)
#   2  encodings   descriptors and shapes against their sources' numbers; ptxas assembles
#   3  probes      one small kernel for each layout and each instruction (benchmarks/first_contact.py)
#   4  blackwell   the GEMMs and attention of tests/examples, on the GPU where they fit it
#   5  sanitizer   the probes under compute-sanitizer's memcheck
#   6  suite       benchmarks/gpu_check.sh: run tests, examples and kernels under all of its tools
#
# PYTHON names the interpreter (with ml_dtypes, pytest, cuda-python, nvidia-nvjitlink, torch); without it the first of
# .venv/bin/python and python3 that has what minitile itself needs. STEPS: what to do of the six. One line a step, the first complaints below it; the exit code is 0 when all passed. All steps are done, also behind one
# that failed; but without a GPU nothing that needs it, unless DRY=1.
set -uo pipefail
cd "$(dirname "$0")/.."
logs=$(realpath -m "${1:-build/first_contact}")
python=${PYTHON:-}
dry=${DRY:-}
steps=${STEPS:-machine encodings probes blackwell sanitizer suite}
mkdir -p "$logs"
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 MINITILE_CACHE_DIR=${MINITILE_CACHE_DIR:-$logs/cache}
[ -n "$dry" ] || export MINITILE_GPU=1
failed=0

has_needed() { "$1" -c 'import ml_dtypes, numpy, pytest' >/dev/null 2>&1; }
if [ -z "$python" ]; then
  for each in .venv/bin/python python3; do
    if has_needed "$each"; then
      python=$each
      break
    fi
  done
fi
if ! has_needed "${python:-python3}"; then
  echo "FAIL python: ${python:-python3} has no ml_dtypes, numpy or pytest; name another one by PYTHON=" >&2
  exit 2
fi

# step NAME COMMAND...: runs it, if it is to be; prints PASS or FAIL, with the first complaints. DRY of what without a GPU
# is only looked for.
step() {
  local name=$1 start=$SECONDS
  shift
  [[ " $steps " == *" $name "* ]] || return 0
  if [ -n "$dry" ] && [ "$name" = sanitizer ]; then
    echo "SKIP $name: it needs a GPU"
    return
  fi
  if "$@" >"$logs/$name.log" 2>&1; then
    if [ -n "$dry" ] && [[ $name == blackwell || $name == suite ]]; then
      echo "DRY $name ($((SECONDS - start)) s): found, not run"
      return
    fi
    echo "PASS $name ($((SECONDS - start)) s)$(grep -E '(passed|failed)' "$logs/$name.log" | tail -1 | sed 's/^/: /')"
    return
  fi
  failed=1
  echo "FAIL $name: $logs/$name.log"
  grep -nE '^(FAIL|FAILED|ERROR|E  )|Error' "$logs/$name.log" | head -12 | cut -c1-220 | sed 's/^/     /'
}

machine() {
  "$python" -m minitile doctor
  [ -n "$dry" ] || nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv,noheader | grep -E ', 10\.[03],'
}

probes() {
  if [ -n "$dry" ]; then
    "$python" benchmarks/first_contact.py "tensor memory" "product of bf16" "64 rows" roles pairs "launch control" "dynamic tiles" "scales of nvf4"
  else
    "$python" benchmarks/first_contact.py
  fi
}

blackwell() {
  local pick=()
  [ -n "$dry" ] && pick=(--collect-only)
  "$python" -m pytest -q -p no:cacheprovider "${pick[@]}" tests/examples/test_blackwell*.py
}

sanitizer() {
  local tool
  tool=$(command -v compute-sanitizer || ls -d /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | tail -1)
  "$tool" --tool memcheck --report-api-errors no --error-exitcode 9 "$python" benchmarks/first_contact.py
}

suite() {
  if [ -n "$dry" ]; then
    PLAN=1 benchmarks/gpu_check.sh 1/3
  else
    PYTHON=$python benchmarks/gpu_check.sh "$logs/suite"
  fi
}

step machine machine
step encodings "$python" -m pytest -q -p no:cacheprovider tests/backends/nvidia/blackwell
step probes probes
step blackwell blackwell
step sanitizer sanitizer
step suite suite
exit $failed
