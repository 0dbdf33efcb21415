"""The scheduler without HTTP: common batches, fairness, bounds, cancellation, shutdown."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch

from served import quick_translator
from tram.errors import InputError
from tram.service.scheduler import Cancellation, Cancelled, Document, Scheduler, Unavailable
from tram.translation.document_state import DocumentState
from tram.translation.lockstep import Cursor
from tram.translation.parts import Found
from tram.translation.tasks import DocumentTask
from tram.translation.translator import Translator

WORDS = ["Tea!", "The old miller waits.", "A small fox sings on the bridge.", "Why?", ""]


@pytest.fixture(scope="module", params=["memory", "sentences"])
def translator(prepared: Path, request: pytest.FixtureRequest) -> Translator:
    made = quick_translator(prepared)
    if request.param == "sentences":
        made = Translator(made.model.without_context(), made.text, beam=2, guards=False)
    return made


@pytest.fixture
def make(prepared: Path) -> Iterator[Callable[..., Scheduler]]:
    """Makes schedulers of a tiny model and closes them."""
    made: list[Scheduler] = []

    def call(**settings: float) -> Scheduler:
        translator = quick_translator(prepared)
        translator.beam = 1
        made.append(Scheduler(translator, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield call
    for scheduler in made:
        scheduler.close(0)


class Gate:
    """Stops the worker before each step until it is let through, and records the steps."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.steps: list[list[Cursor]] = []
        self.open = threading.Event()
        self.arrived = threading.Semaphore(0)
        self._translate = scheduler._next_sentences
        scheduler._next_sentences = self.step  # type: ignore[method-assign]

    def step(self, tasks: list[DocumentTask]) -> list[Found]:
        self.steps.append([task.cursor for task in tasks])
        self.arrived.release()
        self.open.wait(20)
        return self._translate(tasks)


def texts(result: list[list[list]]) -> list[list[str]]:
    return [[best[0].text for best in document] for document in result]


def assert_same_state(one: DocumentState, other: DocumentState) -> None:
    assert one.sentences == other.sentences
    for name, value in other.state.tensors().items():
        torch.testing.assert_close(one.state.tensors()[name], value)


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_documents_are_translated_as_the_translator_does(translator: Translator) -> None:
    scheduler = Scheduler(translator, batch=3)
    documents = [WORDS, WORDS[::-1], [], [""], WORDS[1:2] * 3, ["The old miller waits " * 30]]
    expected = [translator.translate(document) for document in documents]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda document: scheduler.translate([Document(document)]), documents))
    assert [texts(result)[0] for result in found] == expected
    assert texts(scheduler.translate([Document(document) for document in documents])) == expected
    scheduler.close(1)


def test_a_state_advances_as_with_the_translator(translator: Translator) -> None:
    scheduler = Scheduler(translator)
    ours, theirs = translator.start(), translator.start()
    for _ in range(2):
        result = scheduler.translate([Document(WORDS, ours)])
        assert texts(result)[0] == translator.translate(WORDS, theirs)
    assert_same_state(ours, theirs)
    scheduler.close(1)


def test_alternatives_come_with_scores_best_first(translator: Translator) -> None:
    scheduler = Scheduler(translator)
    ((options,),) = scheduler.translate([Document(["The old miller waits."], best=2)])
    assert len(options) == 2
    assert options[0].score >= options[1].score
    scheduler.close(1)


def test_requests_that_wait_share_a_step(make: Callable[..., Scheduler]) -> None:
    scheduler = make(batch=8)
    gate = Gate(scheduler)
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(scheduler.translate, [Document(["Tea!"])])
        gate.arrived.acquire()
        others = [pool.submit(scheduler.translate, [Document(["Why?"])]) for _ in range(5)]
        wait_for(lambda: scheduler.statistics.waiting_requests == 6)
        gate.open.set()
        for future in (first, *others):
            future.result(20)
    assert list(map(len, gate.steps)) == [1, 5]


def test_an_idle_worker_waits_a_moment_for_a_fuller_batch(make: Callable[..., Scheduler]) -> None:
    scheduler = make(batch=2, wait=20)
    with ThreadPoolExecutor(2) as pool:
        one, two = (pool.submit(scheduler.translate, [Document(["Tea!"])]) for _ in range(2))
        one.result(10), two.result(10)
    assert scheduler.statistics.steps == 1


def test_a_client_that_was_answered_joins_those_that_waited_meanwhile(make: Callable[..., Scheduler]) -> None:
    scheduler = make(batch=8, wait=10)
    gate = Gate(scheduler)
    scheduler.wait = 0.0  # the first step does not wait for a second client
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lambda: [scheduler.translate([Document(["Tea!"])]) for _ in range(2)])
        gate.arrived.acquire()
        second = pool.submit(scheduler.translate, [Document(["Why?"])])
        wait_for(lambda: scheduler.statistics.waiting_requests == 2)
        scheduler.wait = 10
        gate.open.set()
        first.result(20), second.result(20)
    assert list(map(len, gate.steps)) == [1, 2]


def test_a_document_does_not_wait_for_others_between_its_sentences(make: Callable[..., Scheduler]) -> None:
    scheduler = make(batch=8, wait=0.0)
    gate = Gate(scheduler)
    with ThreadPoolExecutor(1) as pool:
        document = pool.submit(scheduler.translate, [Document(["Tea!", "Why?"])])
        gate.arrived.acquire()
        scheduler.wait = 100
        gate.open.set()
        document.result(20)


def test_a_huge_request_does_not_starve_small_ones(make: Callable[..., Scheduler]) -> None:
    scheduler = make(batch=4)
    gate = Gate(scheduler)
    with ThreadPoolExecutor(2) as pool:
        huge = pool.submit(scheduler.translate, [Document(["Tea!"] * 3) for _ in range(40)])
        gate.arrived.acquire()
        small = pool.submit(scheduler.translate, [Document(["Why?"])])
        wait_for(lambda: scheduler.statistics.waiting_requests == 2)
        gate.open.set()
        small.result(20)
        assert not huge.done()
        assert 40 in [cursor.number for cursor in gate.steps[1]], "the small request is in the second step"
        huge.result(60)


def test_with_more_requests_than_places_all_get_their_turn(make: Callable[..., Scheduler]) -> None:
    scheduler = make(batch=2)
    gate = Gate(scheduler)
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(scheduler.translate, [Document(["Tea!"] * 4)]) for _ in range(7)]
        wait_for(lambda: scheduler.statistics.waiting_requests == 7)
        gate.open.set()
        for future in futures:
            future.result(60)
    started: dict[int, int] = {}
    for number, step in enumerate(gate.steps):
        for cursor in step:
            started.setdefault(id(cursor), number)
    assert len(started) == 7
    assert max(started.values()) <= 7, "nobody waits until another one has finished"


def test_a_full_queue_refuses_and_says_when_to_come_back(make: Callable[..., Scheduler]) -> None:
    scheduler = make(max_requests=2)
    gate = Gate(scheduler)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(scheduler.translate, [Document(["Tea!"])]) for _ in range(2)]
        wait_for(lambda: scheduler.statistics.waiting_requests == 2)
        with pytest.raises(Unavailable) as refusal:
            scheduler.translate([Document(["Why?"])])
        assert 1 <= refusal.value.retry_after <= 60
        gate.open.set()
        for future in futures:
            future.result(20)
    assert scheduler.translate([Document(["Why?"])])


def test_many_requests_of_one_client_do_not_starve_another(make: Callable[..., Scheduler]) -> None:
    scheduler = make(batch=4)
    gate = Gate(scheduler)
    with ThreadPoolExecutor(21) as pool:
        greedy = [pool.submit(scheduler.translate, [Document(["Tea!"])], client="greedy") for _ in range(20)]
        gate.arrived.acquire()
        wait_for(lambda: scheduler.statistics.waiting_requests == 20)
        state = scheduler.translator.start()
        small = pool.submit(scheduler.translate, [Document(["Why?"] * 2, state)], client="small")
        wait_for(lambda: scheduler.statistics.waiting_requests == 21)
        gate.open.set()
        small.result(20)
        for future in greedy:
            future.result(20)
    found = [any(len(cursor.sentences) == 2 for cursor in step) for step in gate.steps]
    assert found == [False, True, True, *[False] * (len(found) - 3)], "the small one is in every step after the first"


def test_calls_of_clients_take_turns(make: Callable[..., Scheduler]) -> None:
    scheduler = make()
    entered, leave, ran = threading.Event(), threading.Event(), list[str]()

    def first() -> None:
        entered.set()
        leave.wait(20)

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(scheduler.call, first, client="greedy")]
        entered.wait(20)
        for number, client in enumerate(["greedy"] * 4 + ["small"], start=1):
            futures.append(pool.submit(scheduler.call, partial(ran.append, client), client=client))
            wait_for(lambda number=number: scheduler.statistics.waiting_requests == number)
        leave.set()
        for future in futures:
            future.result(20)
    assert ran == ["greedy", "small", "greedy", "greedy", "greedy"]


def test_sentences_are_bounded_too_but_a_single_request_may_be_large(make: Callable[..., Scheduler]) -> None:
    scheduler = make(max_sentences=120)
    gate = Gate(scheduler)
    with ThreadPoolExecutor(2) as pool:
        large = pool.submit(scheduler.translate, [Document(["Tea!"] * 130)], client="one")
        gate.arrived.acquire()
        for client in ("one", "two"):
            with pytest.raises(Unavailable):
                scheduler.translate([Document(["Why?"] * 101)], client=client)
        small = pool.submit(scheduler.translate, [Document(["Why?"] * 100)], client="two")
        gate.open.set()
        small.result(20)
        assert not large.done()
        large.result(20)


def test_a_cancelled_request_leaves_and_its_state_stays(make: Callable[..., Scheduler]) -> None:
    scheduler = make()
    gate = Gate(scheduler)
    cancellation = Cancellation()
    state = scheduler.translator.start()
    before = state.fork()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(scheduler.translate, [Document(["Tea!"] * 50, state)], cancellation)
        gate.arrived.acquire()
        cancellation.cancel()
        gate.open.set()
        with pytest.raises(Cancelled):
            future.result(20)
    assert len(gate.steps) == 1
    assert_same_state(state, before)
    assert scheduler.statistics.waiting_sentences == 0


def test_a_bad_document_fails_alone(make: Callable[..., Scheduler]) -> None:
    scheduler = make()
    gate = Gate(scheduler)
    bad = scheduler.translator.start()
    bad.state = bad.state.map(lambda value: torch.full_like(value, torch.nan))
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(scheduler.translate, [Document(["Tea!"] * 2)])
        gate.arrived.acquire()
        spoilt = pool.submit(scheduler.translate, [Document(["Tea!"], bad)])
        good = pool.submit(scheduler.translate, [Document(WORDS)])
        wait_for(lambda: scheduler.statistics.waiting_requests == 3)
        gate.open.set()
        with pytest.raises(InputError, match="not numbers"):
            spoilt.result(20)
        assert texts(first.result(20)) == [scheduler.translator.translate(["Tea!"] * 2)]
        assert texts(good.result(20)) == [scheduler.translator.translate(WORDS)]


def test_two_bad_documents_of_one_request_do_not_stop_the_scheduler(make: Callable[..., Scheduler]) -> None:
    scheduler = make()
    bad = [scheduler.translator.start() for _ in range(2)]
    for state in bad:
        state.state = state.state.map(lambda value: torch.full_like(value, torch.nan))
    with pytest.raises(InputError, match="not numbers"):
        scheduler.translate([Document(["Tea!"], state) for state in bad])
    assert texts(scheduler.translate([Document(["Tea!"])])) == [scheduler.translator.translate(["Tea!"])]


def test_calls_run_in_the_worker_between_steps(make: Callable[..., Scheduler]) -> None:
    scheduler = make()
    assert scheduler.call(lambda: threading.current_thread().name) == "tram-scheduler"
    with pytest.raises(ZeroDivisionError):
        scheduler.call(lambda: 1 // 0)
    assert scheduler.is_working


def test_many_calls_wait_for_one_step_only(make: Callable[..., Scheduler]) -> None:
    scheduler = make()
    gate = Gate(scheduler)
    with ThreadPoolExecutor(9) as pool:
        document = pool.submit(scheduler.translate, [Document(["Tea!"] * 3)])
        gate.arrived.acquire()
        calls = [pool.submit(scheduler.call, lambda: len(gate.steps)) for _ in range(8)]
        wait_for(lambda: scheduler.statistics.waiting_requests == 9)
        gate.open.set()
        assert [call.result(20) for call in calls] == [1] * 8
        document.result(20)


def test_closing_finishes_what_was_accepted_and_refuses_the_rest(make: Callable[..., Scheduler]) -> None:
    scheduler = make()
    gate = Gate(scheduler)
    with ThreadPoolExecutor(2) as pool:
        accepted = pool.submit(scheduler.translate, [Document(["Tea!"] * 3)])
        gate.arrived.acquire()
        closing = pool.submit(scheduler.close, 20)
        wait_for(lambda: not scheduler.is_working)
        with pytest.raises(Unavailable, match="shutting down"):
            scheduler.translate([Document(["Why?"])])
        gate.open.set()
        assert texts(accepted.result(20)) == [scheduler.translator.translate(["Tea!"] * 3)]
        closing.result(20)


def test_closing_at_once_refuses_what_is_not_done(make: Callable[..., Scheduler]) -> None:
    scheduler = make()
    gate = Gate(scheduler)
    with ThreadPoolExecutor(2) as pool:
        accepted = pool.submit(scheduler.translate, [Document(["Tea!"] * 30)])
        gate.arrived.acquire()
        closing = pool.submit(scheduler.close, 0)
        wait_for(lambda: not scheduler.is_working)
        gate.open.set()
        with pytest.raises(Unavailable):
            accepted.result(20)
        closing.result(20)
