"""Work queues: bounded, in order, and no accepted item is lost."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import tagged
from prototag.errors import ImageError
from prototag.service.inference_queue import InferencePool, WorkQueue
from prototag.service.problem_details import Problem


def test_answers_reach_those_who_asked():
    async def ask():
        queue = WorkQueue(
            "test", lambda given: [2 * g for g in given], threads=3, batch_size=4, max_waiting=200
        )
        answers = await asyncio.gather(*(queue.submit(number) for number in range(100)))
        queue.close()
        return answers

    assert asyncio.run(ask()) == [2 * number for number in range(100)]


def test_what_cannot_wait_is_turned_away_and_the_rest_is_answered():
    gate = threading.Event()

    def work(given):
        gate.wait(10)
        return given

    async def ask():
        queue = WorkQueue("test", work, threads=1, max_waiting=2)
        asked = [asyncio.create_task(queue.submit(number)) for number in range(6)]
        await asyncio.sleep(0.2)
        gate.set()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        again = await queue.submit(7)
        queue.close()
        return answers, again

    answers, again = asyncio.run(ask())
    refused = [one for one in answers if isinstance(one, Problem)]
    assert len(refused) >= 3
    assert all(one.status == 429 and int(one.headers["Retry-After"]) >= 1 for one in refused)
    assert [one for one in answers if not isinstance(one, Problem)] == list(range(6 - len(refused)))
    assert again == 7


def test_closing_answers_what_waits_and_takes_no_more():
    async def ask():
        queue = WorkQueue(
            "test", lambda given: (time.sleep(0.02), given)[1], threads=2, max_waiting=50
        )
        asked = [asyncio.create_task(queue.submit(number)) for number in range(20)]
        await asyncio.sleep(0)
        await asyncio.to_thread(queue.close)
        answers = await asyncio.gather(*asked)
        with pytest.raises(Problem) as told:
            await queue.submit(0)
        return answers, told.value.status

    assert asyncio.run(ask()) == (list(range(20)), 503)


def test_an_error_is_reported_and_the_queue_continues():
    def work(given):
        if given == [1]:
            raise ValueError("no")
        return given

    async def ask():
        queue = WorkQueue("test", work, threads=1)
        with pytest.raises(ValueError, match="no"):
            await queue.submit(1)
        answer = await queue.submit(2)
        queue.close()
        return answer

    assert asyncio.run(ask()) == 2


def test_what_nobody_waits_for_is_not_computed():
    done, gate = [], threading.Event()

    def work(given):
        gate.wait(10)
        done.extend(given)
        return given

    async def ask():
        queue = WorkQueue("test", work, threads=1)
        first, second, third = (asyncio.create_task(queue.submit(n)) for n in range(3))
        await asyncio.sleep(0.1)
        second.cancel()
        await asyncio.sleep(0.1)
        gate.set()
        await asyncio.gather(first, third)
        queue.close()

    asyncio.run(ask())
    assert done == [0, 2]


def test_a_pool_sees_as_the_annotator_does(photos):
    annotator = tagged.annotator()
    files = sorted(photos.iterdir())

    async def ask():
        pool = InferencePool(lambda: annotator, threads=2)
        inferences = await asyncio.gather(*(pool.infer(path) for path in files))
        with pytest.raises(ImageError):
            await pool.infer(b"nothing")
        await asyncio.to_thread(pool.close)
        return inferences

    for path, inference in zip(files, asyncio.run(ask()), strict=True):
        scores = annotator.model.predict(annotator.vector(path)).scores[0]
        assert inference.scores == pytest.approx(scores, abs=1e-6)
