#!/usr/bin/env bash
# The run tests on this machine's NVIDIA GPU, then every example and the kernels of the benchmarks under
# compute-sanitizer's four tools, compiled for sm_80 and for the GPU itself. All of it, or in parts of at most eight
# minutes each on 16 cores. Then, if asked for, the random sweep of GEMM and attention, and ten thousand launches of each
# that must be bit-identical.
#
#   benchmarks/gpu_check.sh [LOGS]          all; logs go to the folder LOGS (default: build/gpu_check)
#   benchmarks/gpu_check.sh 1/3 [LOGS]      part 1 of 3, likewise 2/3 and 3/3: together they are all
#
# PYTHON=python3 names the interpreter (with torch, pytest, cuda-python, nvidia-nvjitlink); TESTS what pytest runs;
# TARGETS what the examples are compiled for; JOBS how many processes run at once (default: one for each core);
# LIMIT after how many seconds the rest is left undone and the check fails (480 for a part, else without limit);
# STEPS="tests planted examples kernels" what to do, "sweep repeat" besides. PLAN=1 only prints what would be done. One
# line a check, first lines of what failed below it; the exit code is 0 when all passed.
set -uo pipefail
cd "$(dirname "$0")/.."
part=1/1
if [[ "${1:-}" =~ ^[0-9]+/[0-9]+$ ]]; then
  part=$1
  shift
fi
number=${part%/*} parts=${part#*/}
if ((number < 1 || number > parts)); then
  echo "part $part: write I/N, from 1/N to N/N" >&2
  exit 2
fi
logs=$(realpath -m "${1:-build/gpu_check}")
python=${PYTHON:-python3}
tests=${TESTS:-tests/examples tests/runtime tests/golden}
targets=${TARGETS:-sm_80 auto}
jobs=${JOBS:-$(nproc)}
limit=${LIMIT:-$([ "$part" = 1/1 ] || echo 480)}
steps=${STEPS:-tests planted examples kernels}
sweep=tests/examples/test_sweep.py
tools="memcheck racecheck initcheck synccheck"
mkdir -p "$logs"
export MINITILE_GPU=1 PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 MINITILE_CACHE_DIR=${MINITILE_CACHE_DIR:-$logs/cache}
# Some seconds before the end, for what is under way to be stopped and told of.
end=${limit:+$(($(date +%s) + limit - 15))}
sanitizer=$(command -v compute-sanitizer || ls -d /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | tail -1)
export logs python end sanitizer
failed=0

# check NAME SECONDS COMMAND...: runs it; prints PASS or FAIL, with the first complaints.
check() {
  local name=$1 limit=$2 start=$SECONDS status=0
  shift 2
  if [ -n "$end" ]; then
    local left=$((end - $(date +%s)))
    if ((left < 1)); then
      echo "FAIL $name: not run, no time was left (LIMIT)"
      return 1
    fi
    limit=$((left < limit ? left : limit))
  fi
  timeout -k 5 "$limit" "$@" >"$logs/$name.log" 2>&1 || status=$?
  if [ $status = 0 ]; then
    echo "PASS $name ($((SECONDS - start)) s)$(grep -E '(passed|failed)|^no form' "$logs/$name.log" | tail -1 | sed 's/^/: /')"
    return
  fi
  [ $status = 124 ] && echo "FAIL $name: still running after $limit s" || echo "FAIL $name: exit code $status"
  grep -nE '^(FAILED|ERROR|E  )|Error|=========.*(Invalid|hazard|Uninit|Barrier|Race|summary|SUMMARY)|hazards' "$logs/$name.log" |
    head -8 | cut -c1-220 | sed 's/^/     /'
  return 1
}

# sanitized TOOL SCRIPT ARGS...: fails on anything the tool reports, and when the script fails.
sanitized() {
  local tool=$1 options=()
  shift
  # cuda-python asks the driver for functions that it may not have; that is no error of a kernel.
  [ "$tool" = memcheck ] && options=(--report-api-errors no)
  local said status
  said=$(mktemp)
  "$sanitizer" --tool "$tool" "${options[@]}" --error-exitcode 9 --print-limit 20 "$python" "$@" | tee "$said"
  status=${PIPESTATUS[0]}
  # An example that has no form for the target makes no call, for which the sanitizer exits with 255.
  [ "$status" = 255 ] && grep -q '^no form' "$said" && status=0
  rm -f "$said"
  return "$status"
}

# planted TOOL: passes when the tool finds the fault that was put there for it.
planted() {
  sanitized "$1" tests/gpu/planted.py "$1"
  local status=$?
  echo "exit code $status"
  [ $status = 9 ] && grep -qE 'SUMMARY: [1-9]' "$logs/planted-$1.log"
}

run() { # run KIND TOOL [EXAMPLE TARGET]: one job of the pool below
  case $1 in
  planted) check "planted-$2" 150 bash -c "planted $2" ;;
  example) MINITILE_TARGET=$4 check "$3-$4-$2" 170 bash -c "sanitized $2 examples/$3.py" ;;
  kernels) MINITILE_TARGET=$4 check "kernels-$3-$4-$2" 400 bash -c "sanitized $2 tests/gpu/kernels.py $3" ;;
  esac
}
export -f check sanitized planted run

# The jobs of the pool, the longest first; each part takes every N-th of those that take about as long.
pool() {
  local target tool kernel file example
  if [[ " $steps " == *" kernels "* ]]; then
    for tool in racecheck initcheck memcheck synccheck; do
      for target in $targets; do
        for kernel in gemm attention fp8 epilogues; do
          echo "kernels $tool $kernel $target"
        done
      done
    done
  fi
  if [[ " $steps " == *" examples "* ]]; then
    for tool in racecheck initcheck memcheck synccheck; do
      for file in examples/*.py; do
        example=$(basename "$file" .py)
        [ "$example" = support ] || [ "$example" = demo ] && continue
        for target in $targets; do
          echo "example $tool $example $target"
        done
      done
    done
  fi
  if [[ " $steps " == *" planted "* ]]; then
    for tool in $tools; do
      echo "planted $tool"
    done
  fi
}

list=$(mktemp)
trap 'rm -f "$list"' EXIT
pool | awk -v part="$number" -v parts="$parts" 'NR % parts == part % parts' >"$list"
if [ -n "${PLAN:-}" ]; then
  [[ " $steps " == *" tests "* ]] && echo "tests --shard=$part $tests"
  [[ " $steps " == *" sweep "* ]] && echo "sweep --shard=$part"
  [[ " $steps " == *" repeat "* ]] && echo "repeat --shard=$part"
  cat "$list"
  exit 0
fi

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || exit 1
"$python" -c 'import sys, torch; print("Python", sys.version.split()[0], "torch", torch.__version__, torch.cuda.get_device_name())' || exit 1
if [ -s "$list" ] && [ -z "$sanitizer" ]; then
  echo "compute-sanitizer is neither on PATH nor in /usr/local/cuda*/bin; it comes with CUDA's toolkit" >&2
  exit 1
fi

if [[ " $steps " == *" tests "* ]]; then
  parallel=$("$python" -c 'import xdist' 2>/dev/null && echo "-n $((jobs < 12 ? jobs : 12))")
  # shellcheck disable=SC2086
  check tests 420 "$python" -m pytest -q --maxfail=20 -p no:cacheprovider $parallel --ignore=$sweep "--shard=$part" $tests || failed=1
fi
# One process each: what is looked for here shows when nothing else decides who runs when.
for step in sweep repeat; do
  [[ " $steps " == *" $step "* ]] || continue
  [ $step = sweep ] && paths=$sweep || paths=tests/gpu
  check $step 500 "$python" -m pytest -q -p no:cacheprovider "--shard=$part" $paths || failed=1
done
xargs -P "$jobs" -L 1 bash -c 'run "$@"' run <"$list" || failed=1

[ $failed = 0 ] && echo "all of part $part passed; logs in $logs" || echo "something failed; logs in $logs"
exit $failed
