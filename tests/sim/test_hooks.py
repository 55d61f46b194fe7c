"""When the site's hooks are called on a node's way, and what their word counts."""

from collections.abc import Mapping

from gpuherd.phases import Phase
from gpuherd_agent.doors import HookEnded
from gpuherd_sim.fleet import Fleet, FleetSpec
from gpuherd_sim.hand import Hand
from gpuherd_sim.virtual_time import VirtualLoop, run


class Site:
    """Hooks that are remembered; ``says`` is the exit code of each."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.says: dict[str, int] = {}

    async def run(self, name: str, facts: Mapping[str, str]) -> HookEnded | None:
        assert facts["reason"] or name == "on-verdict"
        self.called.append(name)
        return HookEnded(code=self.says.get(name, 0), output="no")


def test_hooks_are_called_around_a_join_and_a_drain_and_only_pre_join_can_say_no() -> None:
    async def main(loop: VirtualLoop) -> None:
        fleet = Fleet(loop, FleetSpec(nodes=1))
        (name,) = fleet.names
        site = fleet.hosts[name].hooks = Site()
        site.says = {"pre-join": 1, "pre-drain": 1, "post-leave": 1, "on-verdict": 1}
        fleet.start_agents()
        Hand(fleet).serve_all()
        await fleet.until(
            "a refusal", lambda: "hook pre-join ended with 1: no" in _reason(fleet), within_s=60
        )
        assert fleet.head.raylets == []
        site.says["pre-join"] = 0
        await fleet.until_phase(name, Phase.MEMBER, within_s=120)
        site.called.clear()
        fleet.hosts[name].gpus.lose_all()
        await fleet.until_phase(name, Phase.OUTSIDE, within_s=200)
        assert site.called == ["on-verdict", "pre-drain", "post-leave"]

    run(main, until_s=3_600)


def _reason(fleet: Fleet) -> str:
    state = fleet.state(fleet.names[0])
    return state.reason if state else ""
