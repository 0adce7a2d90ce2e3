"""Lanes: bounded, in order, and nothing that was taken is lost."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import tagged
from prototag.errors import ImageError
from prototag.service.inference_queue import Lane, Pool
from prototag.service.problem_details import Problem


def test_answers_reach_those_who_asked():
    async def ask():
        lane = Lane("test", lambda given: [2 * g for g in given], threads=3, together=4, queue=200)
        answers = await asyncio.gather(*(lane.ask(number) for number in range(100)))
        lane.close()
        return answers

    assert asyncio.run(ask()) == [2 * number for number in range(100)]


def test_what_cannot_wait_is_turned_away_and_the_rest_is_answered():
    gate = threading.Event()

    def work(given):
        gate.wait(10)
        return given

    async def ask():
        lane = Lane("test", work, threads=1, queue=2)
        asked = [asyncio.create_task(lane.ask(number)) for number in range(6)]
        await asyncio.sleep(0.2)
        gate.set()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        again = await lane.ask(7)
        lane.close()
        return answers, again

    answers, again = asyncio.run(ask())
    refused = [one for one in answers if isinstance(one, Problem)]
    assert len(refused) >= 3
    assert all(one.status == 429 and int(one.headers["Retry-After"]) >= 1 for one in refused)
    assert [one for one in answers if not isinstance(one, Problem)] == list(range(6 - len(refused)))
    assert again == 7


def test_closing_answers_what_waits_and_takes_no_more():
    async def ask():
        lane = Lane("test", lambda given: (time.sleep(0.02), given)[1], threads=2, queue=50)
        asked = [asyncio.create_task(lane.ask(number)) for number in range(20)]
        await asyncio.sleep(0)
        await asyncio.to_thread(lane.close)
        answers = await asyncio.gather(*asked)
        with pytest.raises(Problem) as told:
            await lane.ask(0)
        return answers, told.value.status

    assert asyncio.run(ask()) == (list(range(20)), 503)


def test_an_error_is_told_and_the_lane_goes_on():
    def work(given):
        if given == [1]:
            raise ValueError("no")
        return given

    async def ask():
        lane = Lane("test", work, threads=1)
        with pytest.raises(ValueError, match="no"):
            await lane.ask(1)
        answer = await lane.ask(2)
        lane.close()
        return answer

    assert asyncio.run(ask()) == 2


def test_what_nobody_waits_for_is_not_computed():
    done, gate = [], threading.Event()

    def work(given):
        gate.wait(10)
        done.extend(given)
        return given

    async def ask():
        lane = Lane("test", work, threads=1)
        first, second, third = (asyncio.create_task(lane.ask(n)) for n in range(3))
        await asyncio.sleep(0.1)
        second.cancel()
        await asyncio.sleep(0.1)
        gate.set()
        await asyncio.gather(first, third)
        lane.close()

    asyncio.run(ask())
    assert done == [0, 2]


def test_a_pool_sees_as_the_annotator_does(photos):
    annotator = tagged.annotator()
    files = sorted(photos.iterdir())

    async def ask():
        pool = Pool(lambda: annotator, threads=2)
        sights = await asyncio.gather(*(pool.see(path) for path in files))
        with pytest.raises(ImageError):
            await pool.see(b"nothing")
        await asyncio.to_thread(pool.close)
        return sights

    for path, sight in zip(files, asyncio.run(ask()), strict=True):
        scores = annotator.model.predict(annotator.vector(path)).scores[0]
        assert sight.scores == pytest.approx(scores, abs=1e-6)
