"""`mt.autotune`: the fastest of several configurations of a kernel, compiled in parallel, timed interleaved, stored.

    space = {"block_M": [64, 128], "block_N": [128, 256], "num_stages": [3, 4]}
    tuning = mt.autotune(matmul, space).tune(a, b, c)       # tuning.kernel(a, b, c); print(tuning)

    @mt.autotune(configs=space)                             # tunes by itself, on the first call of each kind
    @mt.kernel
    def matmul(...): ...

What is sent to the executor is the traced IR as text and the target, and what comes back is assembly, a cubin and plain
data: so any `concurrent.futures.Executor` does, in this process, in others, or (Dask's, Ray's) on other machines, and
the kernel need not be importable there. A second executor may measure (`measuring.py`), on machines with GPUs, of which
this one then needs none; the store is here.

Compiled configurations are measured in small batches. Within one, timing is interleaved with the fastest so far, and a
time is the ratio to that one's: so a GPU that grows warmer over the minutes favours none. In the end the fastest few
meet once more. Each finished measurement is stored at once, by the traced IR (so by the source, the configuration and
everything that the kernel captures), the target, the device and the arguments' dtypes and sizes by magnitude; who calls
again goes on from there. A configuration that fails (to compile, to launch, or its check) stays in the table, with the
reason.
"""

from __future__ import annotations

import itertools
import logging
import math
import operator
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, overload

from minitile.backends.registry import backend_of
from minitile.driver import cache
from minitile.driver.cache import Entry, Key, Kind, default_cache, make_key
from minitile.driver.call_facts import divisor
from minitile.driver.describe_launch import launch_info
from minitile.driver.dispatch import Executable, caller_location, for_users, raise_for_caller
from minitile.driver.jit import Case, Kernel
from minitile.driver.pipeline import Result, compile_ir
from minitile.hardware import Target
from minitile.ir.diagnostics import LaunchArgumentError, MinitileError
from minitile.ir.parser import parse_kernel
from minitile.ir.printer import print_kernel
from minitile.runtime.arrays import ArrayInfo, Place, describe
from minitile.runtime.errors import LaunchError
from minitile.target import parse_target
from minitile.tools.measuring import (
    Code,
    How,
    Measure,
    Outcome,
    Submits,
    Task,
    device_name,
    launch_of,
    measure,
    place_of,
    result_is_wrong,
    said,
    samples,
    where,
)

_LOG = logging.getLogger("minitile.autotune")
Config = dict[str, Any]
Configs = Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any]] | Callable[..., Iterable[Mapping[str, Any]]]
BATCH = 6  # configurations in one interleaved timing, besides the fastest so far
FINALISTS = 4


@dataclass(frozen=True)
class Trial:
    """One configuration: milliseconds of a launch (as a ratio to the fastest of its batch, times that one's), registers
    and spilled bytes of a thread where known; or why there is no time."""

    config: Config
    ms: float | None = None
    failure: str = ""
    registers: int | None = None
    spills: int | None = None

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.config.items())


@dataclass(frozen=True)
class Tuning:
    """The fastest configuration, the kernel with its values as defaults, and the table: the timed ones from the fastest
    on, then those that failed."""

    kernel: Kernel
    config: Config
    trials: tuple[Trial, ...]

    def __str__(self) -> str:
        def line(trial: Trial) -> str:
            if trial.ms is None:
                return f"{'–':>10}  {trial}: {trial.failure}"
            costs = "" if trial.registers is None else f"  ({trial.registers} registers, {trial.spills} bytes spilled)"
            return f"{trial.ms * 1e3:>10.2f}  {trial}{costs}"

        return "\n".join([f"{'µs':>10}  {self.kernel.__name__}", *map(line, self.trials)])


@overload
def autotune(kernel: Kernel, /, configs: Configs, **options: Any) -> Autotuned: ...


@overload
def autotune(*, configs: Configs, **options: Any) -> Callable[[Kernel], Autotuned]: ...


@for_users
def autotune(
    kernel: Kernel | None = None, /, configs: Configs = (), **options: Any
) -> Autotuned | Callable[[Kernel], Autotuned]:
    """A kernel that chooses its compile-time parameters by measuring; without one a decorator, above `@mt.kernel`.

    Args:
        kernel: the kernel.
        configs: dicts of parameters; or a space, values by parameter, of which all combinations are tried; or a
            function of the arguments that gives dicts.
        options: the fields of `Options`:

            - check: called with the arguments after a launch of each configuration; returns False or raises if the
            result is wrong. What the call makes (`T.empty`, `out_idx`) is among them, as the kernel has them in order:
            T.empty's come last.
            - reset: called with them before that launch, to poison or restore what the kernel writes.
            - executor: who compiles: any concurrent.futures.Executor, or what has such a `submit`; threads of
            this process by default.
            - measure_on: who measures: another executor, whose workers have GPUs, all of one kind. Then check, reset,
            measure and arguments go there, and must pickle.
            - arguments: with measure_on, a function that makes the arguments of the launches there, results among
            them; by default those of the call are sent.
            - measure: instead of the GPU's clock: gets functions by configuration, which launch when called, and
            returns samples in milliseconds for each. Where arguments are NumPy arrays there is no other way: the
            simulator executes, it has no clock.
            - rounds: how many turns each takes in a batch; 3 times as many in the end.
            - flush_l2: whether L2 is emptied before each launch; otherwise it holds what the launch before left.
            - progress: whether stderr says how far it is (by tqdm where that is installed).
            - cache: whether measurements are stored on disk, where compiled kernels are.

    Raises:
        LaunchArgumentError: configurations that are none.
    """
    chosen = Options(**options) if _known(options) else Options()
    if kernel is None:
        return lambda decorated: Autotuned(decorated, configs, chosen)
    return Autotuned(kernel, configs, chosen)


@dataclass(frozen=True)
class Options:
    """See `autotune`."""

    check: Callable[..., Any] | None = None
    reset: Callable[..., Any] | None = None
    executor: Submits | None = None
    measure_on: Submits | None = None
    arguments: Callable[[], Sequence[Any]] | None = None
    measure: Measure | None = None
    rounds: int = 15
    flush_l2: bool = False
    progress: bool = True
    cache: bool = True


def _known(options: Mapping[str, Any]) -> bool:
    names = Options.__dataclass_fields__
    for name in options:
        if name not in names:
            raise LaunchArgumentError(
                f"autotune has no option '{name}'", caller_location(), f"there are {', '.join(names)}"
            )
    return True


class Autotuned:
    """A kernel with configurations to choose from. `tune` chooses; a call chooses where that has not been done for
    arguments of this kind (dtypes, magnitudes of sizes, device) and runs the kernel."""

    def __init__(self, kernel: Kernel, configs: Configs, options: Options) -> None:
        if not isinstance(kernel, Kernel):
            raise LaunchArgumentError(
                f"autotune is for kernels, not {kernel!r}", caller_location(), "write it above @mt.kernel"
            )
        self.kernel, self.configs, self.options = kernel, configs, options
        self.__name__, self.__doc__, self.__wrapped__ = kernel.__name__, kernel.__doc__, kernel
        self._tuned: dict[Any, Tuning] = {}

    def __call__(self, *args: Any, **constants: Any) -> Any:
        """Runs the kernel in the configuration chosen for such arguments, and returns what it returns; constants:
        parameters that are not tuned."""
        key = (*map(_kind, args), tuple(constants.items()))
        tuning = self._tuned.get(key)
        if tuning is None:
            tuning = self._tuned[key] = self.tune(*args, **constants)
        return tuning.kernel(*args, **constants)

    @for_users
    def tune(self, *args: Any, **constants: Any) -> Tuning:
        """Measures what is not stored yet, and chooses. The kernel runs on these very arguments, many times; what they
        hold afterwards is what its last run left. Raises LaunchArgumentError where no configuration works."""
        run = _Run(self.kernel, self.options, args, constants)
        return run.tuning(_expanded(self.configs, args))


def _expanded(configs: Configs, args: Sequence[Any]) -> list[Config]:
    """The configurations as a list of dicts, each once."""
    if callable(configs):
        found = [dict(c) for c in configs(*args)]
    elif isinstance(configs, Mapping):
        found = [dict(zip(configs, values, strict=True)) for values in itertools.product(*configs.values())]
    else:
        found = [dict(c) for c in configs]
    if not found:
        raise LaunchArgumentError("there are no configurations to choose from", caller_location())
    return [c for n, c in enumerate(found) if c not in found[:n]]


def _kind(arg: Any) -> Any:
    """What tells arguments apart: dtype, device and the sizes by magnitude and by what divides them."""
    if arg is None or isinstance(arg, (bool, int, float)):
        return type(arg).__name__
    try:
        info: ArrayInfo = describe(arg)
    except LaunchError as error:
        raise_for_caller(error)
    return (info.dtype, info.device_kind, *((max(n - 1, 0).bit_length(), divisor(n)) for n in info.shape))


# Compiling, anywhere -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A kernel to compile: the traced IR with source locations, and the target. Pickles."""

    ir: str
    target: Target
    passes: dict[str, bool]


@dataclass(frozen=True)
class Built:
    """What came of it; `prebuilt` is what `Program.prebuilt` makes. Pickles."""

    result: Result | None = None
    prebuilt: Any = None
    failure: str = ""


def build(job: Job) -> Built:
    """Compiles and assembles; what the user can be blamed for comes back as a failure. No GPU is needed."""
    try:
        result = compile_ir(parse_kernel(job.ir), job.target, job.passes)
        prebuilt = backend_of(job.target).program(result.assembly, result.entry, job.target).prebuilt()
    except MinitileError as error:
        return Built(failure=said(error))
    return Built(result, prebuilt)


MEASURED = Kind(
    "autotune",
    {
        "ms": cache.optional(cache.positive),
        "failure": cache.text,
        "registers": cache.optional(cache.count),
        "spills": cache.optional(cache.count),
    },
    operator.not_,
)
FASTEST = Kind("autotune, the fastest", {"best": cache.count}, operator.not_)


# One tuning ----------------------------------------------------------------------------------------------------------


@dataclass
class _Candidate:
    """A configuration on its way: `key` is that of its measurement."""

    config: Config
    case: Case | None = None
    job: Job | None = None
    key: Key | None = None
    trial: Trial | None = None
    code: Code | None = None
    executable: Executable | None = None  # where this process measures

    def __str__(self) -> str:
        return str(Trial(self.config))


@dataclass
class _Batch:
    """Candidates that are being timed together with the fastest before."""

    left: list[_Candidate]
    champion: _Candidate | None
    outcome: Future[Outcome]


@dataclass
class _Run:
    """The work of one `tune`."""

    kernel: Kernel
    options: Options
    args: tuple[Any, ...]
    constants: Config
    target: Target = field(init=False)
    place: Place = field(init=False)
    device: str = field(init=False)
    how: How = field(init=False)
    final: bool = True  # whether all have been measured, and the fastest few have met once more

    def __post_init__(self) -> None:
        o = self.options
        self.how = How(o.check, o.reset, o.measure, o.rounds, o.flush_l2)
        if o.measure_on is not None:
            arguments = self.args if o.arguments is None else o.arguments
            self.place = place_of(self.args)
            self.device, target = o.measure_on.submit(where, arguments).result()
            self.target = self.kernel.target if isinstance(self.kernel.target, Target) else parse_target(target)
            return
        if o.arguments is not None:
            raise LaunchArgumentError(
                "arguments= makes the arguments where measure_on= measures", caller_location(), "pass both, or none"
            )
        self.place = place_of(self.args)
        self.device = device_name(self.place)
        self.target = self.kernel.target_for(self.place)
        if self.place.kind == "cpu" and o.measure is None:
            raise LaunchArgumentError(
                "NumPy arrays run in the simulator, which has no clock",
                caller_location(),
                "pass measure=, or GPU arrays",
            )

    def tuning(self, configs: Sequence[Config]) -> Tuning:
        candidates = [self.candidate(config) for config in configs]
        left = [c for c in candidates if c.trial is None]
        store = default_cache() if self.options.cache else None
        final = make_key(
            FASTEST, name=self.kernel.__name__, candidates=" ".join(c.key.name if c.key else "" for c in candidates)
        )
        stored = store.load(final) if store is not None and not left else None
        if stored is None or stored.meta["best"] >= len(candidates):
            with progress(len(candidates), self.kernel.__name__, self.options.progress) as say:
                say(len(candidates) - len(left), "")
                self.measure_all(candidates, left, say)
            best = self.fastest(candidates)
            if store is not None and self.final:
                store.store(final, Entry({"best": candidates.index(best)}, b""))
        else:
            best = candidates[stored.meta["best"]]
        trials = [c.trial for c in candidates if c.trial is not None]
        order = [best.trial, *(t for t in trials if t is not best.trial)]
        ranked = sorted(order, key=lambda t: math.inf if t is None or t.ms is None else t is not best.trial and t.ms)
        return Tuning(self.kernel.configured(**best.config), best.config, tuple(t for t in ranked if t is not None))

    # What there is, and what is stored

    def candidate(self, config: Config) -> _Candidate:
        """The configuration, traced, with its measurement if that is stored."""
        found = _Candidate(config)
        try:
            given = self.kernel._described(self.args, {**self.constants, **config})
            traced = given.trace()
            text = print_kernel(traced, locations=True)
        except MinitileError as error:
            found.trial = Trial(config, failure=said(error))
            return found
        found.case, found.job = given, Job(text, self.target, self.kernel.passes)
        measure = self.options.measure
        clock = "GPU" if measure is None else f"{measure.__module__}.{getattr(measure, '__qualname__', '')}"
        described = "\n".join(repr(_kind(a)) for a in self.args)
        how = f"{clock}, {'flushed' if self.options.flush_l2 else 'warm'}"
        switches = repr(sorted(self.kernel.passes.items()))
        found.key = make_key(
            MEASURED,
            name=traced.name,
            ir=text,
            target=self.target.name,
            device=self.device,
            clock=how,
            passes=switches,
            arguments=described,
        )
        store = default_cache() if self.options.cache else None
        entry = store.load(found.key) if store is not None else None
        if entry is not None:
            found.trial = Trial(config, **entry.meta)
        return found

    def keep(self, candidate: _Candidate, trial: Trial) -> None:
        """Stores a finished measurement."""
        candidate.trial = trial
        _LOG.debug("%s, %s: %s", self.kernel.__name__, trial, trial.failure or f"{trial.ms} ms")
        store = default_cache() if self.options.cache else None
        if store is not None and candidate.key is not None:
            meta = {"ms": trial.ms, "failure": trial.failure, "registers": trial.registers, "spills": trial.spills}
            store.store(candidate.key, Entry(meta, b""))

    def lose(self, candidate: _Candidate, error: Exception) -> None:
        """Nothing is known of it now; another time it may go well."""
        candidate.trial = Trial(candidate.config, failure=said(error))
        self.final = False

    # Compiling and measuring

    def measure_all(
        self, candidates: list[_Candidate], left: list[_Candidate], say: Callable[[int, str], None]
    ) -> None:
        """Measures what is left, in batches, as it comes from the executor. Where others measure, the first batch comes
        alone, so that the rest has something to be compared with, and then as many at once as there are."""
        under_way: list[_Batch] = []

        def settle(batch: _Batch) -> None:
            self.settle(batch)
            fastest = min((c for c in candidates if _timed(c)), key=_ms, default=None)
            best = "" if fastest is None else f"{_ms(fastest) * 1e3:.1f} µs: {fastest}"
            say(len(batch.left), best)
            ready = sum(c.trial is not None for c in candidates)
            _LOG.info("%s: %d of %d; %s", self.kernel.__name__, ready, len(candidates), best or "none runs yet")

        try:
            for batch in self.batches(left, say):
                while under_way and (under_way[0].outcome.done() or not any(map(_timed, candidates))):
                    settle(under_way.pop(0))
                champion = min((c for c in candidates if _timed(c)), key=_ms, default=None)
                group = batch if champion is None else [champion, *batch]
                under_way.append(_Batch(batch, champion, self.measured(group, batch)))
            while under_way:
                settle(under_way.pop(0))
        except BaseException:  # an interrupt
            for each in under_way:
                each.outcome.cancel()
            raise

    def batches(self, left: list[_Candidate], say: Callable[[int, str], None]) -> Iterator[list[_Candidate]]:
        """Compiled configurations that passed their check, a few at a time."""
        own = None if self.options.executor is not None else ThreadPoolExecutor(os.cpu_count())
        executor = self.options.executor or own
        assert executor is not None
        futures: dict[Future[Built], _Candidate] = {}
        try:
            for candidate in left:
                if candidate.job is not None:
                    futures[executor.submit(build, candidate.job)] = candidate
            batch: list[_Candidate] = []
            for future in as_completed(futures):
                candidate = futures[future]
                try:
                    built = future.result()
                except Exception as error:  # the executor's own, such as a worker that died
                    self.lose(candidate, error)
                    say(1, "")
                    continue
                reason = self.ready(candidate, built)
                if reason:
                    self.keep(candidate, Trial(candidate.config, failure=reason))
                    say(1, "")
                    continue
                batch.append(candidate)
                if len(batch) == BATCH:
                    yield batch
                    batch = []
            if batch:
                yield batch
        except BaseException:  # an interrupt: no caller waits for what is being compiled
            for future in futures:
                future.cancel()
            if own is not None:
                own.shutdown(wait=False, cancel_futures=True)
            raise
        if own is not None:
            own.shutdown()

    def ready(self, candidate: _Candidate, built: Built) -> str:
        """Makes the executable and checks it; why not, where that fails."""
        if built.failure:
            return built.failure
        try:
            self.load(candidate, built)
            if self.options.measure_on is not None:
                return ""  # who measures checks
            assert candidate.executable is not None
            return result_is_wrong(candidate.executable, self.arguments(candidate), self.how)
        except MinitileError as error:
            return said(error)

    def load(self, candidate: _Candidate, built: Built) -> None:
        assert built.result is not None
        assert candidate.case is not None
        candidate.code = Code(launch_info(built.result, candidate.case), built.result.assembly, built.prebuilt)
        if self.options.measure_on is None:
            candidate.executable = candidate.code.executable(self.target)

    def arguments(self, candidate: _Candidate) -> tuple[Any, ...]:
        """All of a launch: those of the call, defaults, and new arrays for the results. They are made when they are
        asked for, so that only as many are there as are timed together."""
        given = self.kernel._given(self.args, {**self.constants, **candidate.config})
        calls, runtime, results = self.kernel._calls(given)
        return tuple(calls.complete(runtime, results))

    def sent(self, candidate: _Candidate) -> tuple[Any, ...]:
        """The same for who measures elsewhere. Raises LaunchArgumentError for a kernel that makes its results, of which
        configurations may have different ones."""
        assert candidate.case is not None
        if candidate.case.made:
            raise LaunchArgumentError(
                f"{self.kernel.__name__} makes its results, and measure_on= measures where no call makes any",
                caller_location(),
                "arguments=, a function, makes all arguments there, results too",
            )
        return self.arguments(candidate)

    def measured(
        self, group: Sequence[_Candidate], unchecked: Sequence[_Candidate] = (), turns: int = 1
    ) -> Future[Outcome]:
        """Samples of these, interleaved; there already, or to come from who measures."""
        for candidate in group:
            if candidate.code is None:  # its measurement was stored earlier
                assert candidate.job is not None
                self.load(candidate, build(candidate.job))
        if self.options.measure_on is not None:
            arguments = self.sent(group[0]) if self.options.arguments is None else self.options.arguments
            codes = {str(c): c.code for c in group if c.code is not None}
            how = replace(self.how, rounds=self.how.rounds * turns)
            task = Task(codes, self.target, arguments, how, frozenset(map(str, unchecked)))
            return self.options.measure_on.submit(measure, task)
        outcome, launches = Outcome(), {}
        for candidate in group:
            try:
                assert candidate.executable is not None
                launches[str(candidate)] = launch_of(candidate.executable, self.arguments(candidate))
            except MinitileError as error:
                outcome.failures[str(candidate)] = said(error)
                continue
            costs = candidate.executable.program.known_costs()
            if costs:
                outcome.costs[str(candidate)] = costs.registers, costs.spills
        if launches:
            outcome.times.update(samples(launches, self.how, turns))
        done: Future[Outcome] = Future()
        done.set_result(outcome)
        return done

    def settle(self, batch: _Batch) -> None:
        """Stores the times of a batch, as ratios to those of the fastest before, and the failures."""
        try:
            outcome = batch.outcome.result()
        except MinitileError:
            raise
        except Exception as error:  # as in `batches`
            for candidate in batch.left:
                self.lose(candidate, error)
            return
        for candidate in batch.left:
            if str(candidate) in outcome.failures:
                self.keep(candidate, Trial(candidate.config, failure=outcome.failures[str(candidate)]))
        there = [c for c in batch.left if str(c) in outcome.times]
        if not there:
            return
        times, first = outcome.times, batch.champion
        if first is None or str(first) not in times:
            first = min(there, key=lambda c: statistics.median(times[str(c)]))
        for candidate in there:
            ms = _relative(times[str(candidate)], times[str(first)]) * _base(first, times)
            self.keep(candidate, Trial(candidate.config, ms, "", *outcome.costs.get(str(candidate), ())))

    def fastest(self, candidates: list[_Candidate]) -> _Candidate:
        """The winner of a last round of the fastest few. Raises LaunchArgumentError where none works."""
        timed = sorted((c for c in candidates if _timed(c)), key=_ms)
        if not timed:
            reasons = "\n".join(f"    {c}: {c.trial.failure}" for c in candidates[:8] if c.trial)
            raise LaunchArgumentError(
                f"no configuration of {self.kernel.__name__} works:\n{reasons}", caller_location()
            )
        finalists = timed[:FINALISTS]
        if len(finalists) == 1:
            return finalists[0]
        try:
            times = self.measured(finalists, turns=3).result().times
        except MinitileError:
            raise
        except Exception:  # the executor's own: it stays with what is known, and the next call asks again
            self.final = False
            return finalists[0]
        if str(finalists[0]) not in times:
            return finalists[0]
        ratios = {n: _relative(found, times[str(finalists[0])]) for n, found in times.items()}
        return min(finalists, key=lambda c: ratios.get(str(c), math.inf))


def _timed(candidate: _Candidate) -> bool:
    return candidate.trial is not None and candidate.trial.ms is not None


def _ms(candidate: _Candidate) -> float:
    assert candidate.trial is not None
    assert candidate.trial.ms is not None
    return candidate.trial.ms


def _relative(samples: Sequence[float], base: Sequence[float]) -> float:
    """How many times as long as `base`, round by round."""
    if len(samples) != len(base):
        return statistics.median(samples) / statistics.median(base)
    return statistics.median(t / b for t, b in zip(samples, base, strict=True))


def _base(first: _Candidate, times: Mapping[str, Sequence[float]]) -> float:
    """What the champion's time counts as: what it was when it became one."""
    return _ms(first) if _timed(first) else statistics.median(times[str(first)])


@contextmanager
def progress(total: int, name: str, wanted: bool) -> Iterator[Callable[[int, str], None]]:
    """A function that is told how many more are done, and of the fastest so far."""
    if not wanted:
        yield lambda count, text: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        tqdm = None
    if tqdm is not None:
        with tqdm(total=total, desc=f"tuning {name}", file=sys.stderr) as bar:

            def tell(count: int, text: str) -> None:
                bar.update(count)
                bar.set_postfix_str(text)

            yield tell
        return
    done, fastest = 0, ""

    def say(count: int, text: str) -> None:
        nonlocal done, fastest
        done, fastest = done + count, text or fastest
        print(f"\rtuning {name}: {done} of {total}  {fastest}".ljust(100), end="", file=sys.stderr, flush=True)

    try:
        yield say
    finally:
        print(file=sys.stderr)
