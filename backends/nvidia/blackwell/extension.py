"""What sm_100a and sm_103a add to NVIDIA's backend (`extensions.py`): rules, passes, printers, opcodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minitile.backends.base import Pass, Rules
from minitile.backends.nvidia.extensions import Extension, Printers
from minitile.hardware import Target


class Blackwell(Extension):
    feature = "tcgen05"
    telling = r"tcgen05\.[a-z_]+"
    memory = frozenset({"tcgen05"})
    effects = frozenset({"clusterlaunchcontrol"})
    orders = r"tcgen05\.(?:fence|wait)"

    def rules(self, target: Target) -> Rules:
        from minitile.backends.nvidia.blackwell import rules

        return rules.rules_for(target)

    def passes(self) -> Mapping[str, Sequence[tuple[str, Pass]]]:
        from minitile.backends.nvidia.blackwell.fences import tensor_fences
        from minitile.backends.nvidia.blackwell.issuer import issue_apart
        from minitile.backends.nvidia.blackwell.launch_control import launch_control
        from minitile.backends.nvidia.blackwell.tensor_memory import await_products, one_team, tensor_memory
        from minitile.backends.nvidia.blackwell.tile_ring import elide_tile_releases
        from minitile.backends.nvidia.blackwell.warpgroups import by_warpgroups

        in_tensor = [("tensor_memory", tensor_memory), ("issue_apart", issue_apart), ("by_warpgroups", by_warpgroups)]
        in_tensor.append(("launch_control", launch_control))
        return {
            "deepen_stages": [("one_team", one_team)],
            "tma_multistage": [("await_products", await_products)],
            "software_pipeline": in_tensor,
            "thread_barriers": [("elide_tile_releases", elide_tile_releases)],
            "warp_barriers": [("tensor_fences", tensor_fences)],
        }

    def printers(self) -> Printers:
        from minitile.backends.nvidia.blackwell.emit import EMIT

        return EMIT


EXTENSION = Blackwell()
