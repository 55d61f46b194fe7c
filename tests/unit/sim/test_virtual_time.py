"""Virtual time and simulated processes."""

import asyncio
import random

import pytest

from gpuherd_sim.process import Life, Process
from gpuherd_sim.virtual_time import Deadlock, RunFailed, TimeOver, VirtualClock, VirtualLoop, run


def test_an_hour_of_sleep_ends_exactly_at_its_deadline() -> None:
    async def main(loop: VirtualLoop) -> tuple[float, float]:
        clock = VirtualClock(loop)
        await clock.sleep_until(3_600.1)
        return clock.now(), clock.boot_s()

    assert run(main, until_s=4_000) == (3_600.1, 7_200.1)


def test_timers_of_one_instant_fire_in_their_order_of_creation() -> None:
    async def main(loop: VirtualLoop) -> list[int]:
        seen: list[int] = []
        for number in range(50):
            loop.call_at(5.0, seen.append, number)
        await asyncio.sleep(6)
        return seen

    assert run(main, until_s=10) == list(range(50))


def test_two_runs_with_one_seed_are_the_same() -> None:
    async def main(loop: VirtualLoop) -> list[tuple[float, int]]:
        rng = random.Random(7)  # noqa: S311
        seen: list[tuple[float, int]] = []

        async def worker(number: int) -> None:
            for _ in range(5):
                await asyncio.sleep(rng.random())
                seen.append((loop.time(), number))

        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(worker(number))
        return seen

    assert run(main, until_s=100) == run(main, until_s=100)


def test_a_deadlock_says_which_tasks_wait() -> None:
    async def main(loop: VirtualLoop) -> None:
        await loop.create_future()

    with pytest.raises(Deadlock, match="1 tasks wait"):
        run(main, until_s=10)


def test_a_run_that_does_not_end_in_its_time_is_an_error() -> None:
    async def main(loop: VirtualLoop) -> None:
        await VirtualClock(loop).sleep_until(11)

    with pytest.raises(TimeOver, match="not finished at 10 s"):
        run(main, until_s=10)


def test_an_exception_of_a_process_fails_the_run() -> None:
    async def broken() -> None:
        raise ValueError("bug")

    async def main(loop: VirtualLoop) -> None:
        Process(loop, "broken", broken)
        await asyncio.sleep(1)

    with pytest.raises(RunFailed) as caught:
        run(main, until_s=10)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_wall_jump_moves_neither_now_nor_boot_time() -> None:
    async def main(loop: VirtualLoop) -> tuple[float, float, float]:
        clock = VirtualClock(loop)
        before = clock.wall()
        clock.wall_skew_s = 3_600.0
        return clock.wall() - before, clock.now(), clock.boot_s()

    assert run(main, until_s=1) == (3_600.0, 0.0, 3_600.0)


def test_a_killed_process_runs_no_clean_up_and_its_children_neither() -> None:
    async def main(loop: VirtualLoop) -> tuple[list[str], list[str]]:
        seen: list[str] = []

        async def child() -> None:
            try:
                await asyncio.sleep(10)
            finally:
                seen.append("child cleaned up")

        async def program() -> None:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(child())
            finally:
                seen.append("program cleaned up")

        process = Process(loop, "program", program)
        deaths: list[str] = []
        process.at_death(lambda: deaths.append("seen by the kernel"))
        await asyncio.sleep(1)
        process.kill()
        await asyncio.sleep(100)
        return list(seen), deaths

    assert run(main, until_s=1_000) == ([], ["seen by the kernel"])


def test_a_stopped_process_goes_on_where_it_was() -> None:
    async def main(loop: VirtualLoop) -> list[float]:
        seen: list[float] = []

        async def program() -> None:
            while True:
                await asyncio.sleep(1)
                seen.append(loop.time())

        process = Process(loop, "program", program)
        await asyncio.sleep(2.5)
        process.stop()
        await asyncio.sleep(10)
        process.resume()
        await asyncio.sleep(1.2)
        return seen

    assert run(main, until_s=100) == [1.0, 2.0, 12.5, 13.5]


def test_a_process_that_returns_has_ended() -> None:
    async def program() -> None:
        await asyncio.sleep(1)

    async def main(loop: VirtualLoop) -> Life:
        process = Process(loop, "program", program)
        await asyncio.sleep(2)
        return process.life

    assert run(main, until_s=10) is Life.ENDED


def test_work_for_a_thread_is_done_on_the_spot() -> None:
    async def main(loop: VirtualLoop) -> tuple[int, float]:
        return await asyncio.to_thread(sum, [1, 2, 3]), loop.time()

    assert run(main, until_s=1) == (6, 0.0)
