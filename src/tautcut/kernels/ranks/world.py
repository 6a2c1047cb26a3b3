"""What the ranks of a run tell each other, by torch.distributed: gloo between processors, NCCL between GPUs. It owns
the group, its time-outs, and who is named when one does not answer; it also keeps the time, because all ranks must read
the same clock. What is told is decided elsewhere.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist

from tautcut.arrays import Array, FloatArray, IntArray
from tautcut.errors import PeerFailedError, RankLostError, TautcutError

Answer = TypeVar("Answer")

_PULSE = 0.5  # seconds between signs of life, where one rank works and the others wait
_ROLL_CALL = 5.0  # seconds in which every rank that is alive has to answer, once one has not
_LOOKS = 0.1  # seconds between looks at who has
_HEADER = 3  # numbers that go with every gather: the clock, whether to stop, and how long the rank has been busy


@dataclass
class Timings:
    """Seconds since the ranks last began to count: in all, on the wire, and waiting for the slowest rank."""

    seconds: float = 0.0
    wire: float = 0.0
    waiting: float = 0.0
    n_gathers: int = 0
    n_exchanges: int = 0
    n_bytes: int = 0  # that this rank has sent

    @property
    def wire_share(self) -> float:
        """The share of the time in which not even the slowest rank computes."""
        return self.wire / self.seconds if self.seconds else 0.0

    @property
    def waiting_share(self) -> float:
        """The share of the time in which this rank waits for the slowest."""
        return self.waiting / self.seconds if self.seconds else 0.0


class Pending:
    """Rows that are under way; `wait` returns when they have arrived."""

    def __init__(self, world: World, handles: list[Any]) -> None:
        self._world, self._handles = world, handles

    def wait(self) -> None:
        """Wait for all of them."""
        with self._world.talking("an exchange of rows"):
            for handle in self._handles:
                handle.wait()


class World:
    """The ranks of a run, seen from one of them. All of them call the same methods in the same order."""

    def __init__(self, store: Any, rank: int, size: int, *, timeout: float, device: str) -> None:
        self.rank, self.size, self.device = rank, size, device
        self.now = 0.0  # rank 0's clock at the last gather
        self.is_stopping = False  # whether a rank has asked to stop by then
        self.wants_to_stop = False  # set by whoever hears an interrupt on this rank
        self.timings = Timings()
        self._store, self._timeout = store, timeout
        self._busy_since = self._gathered_at = time.perf_counter()
        self._busy = 0.0
        self._n_works = 0

    @classmethod
    def join(cls, *, timeout: float, device: str = "cpu") -> World:
        """The world that torchrun's environment variables describe, once all of its ranks are there.

        Where ranks share a GPU, or have none, rows go through gloo; NCCL wants a GPU for each.
        """
        limit = timedelta(seconds=timeout)
        try:
            store, rank, size = next(dist.rendezvous("env://", timeout=limit))
            store.set_timeout(limit)
            store.set(f"host/{rank}", f"{socket.gethostname()}, process {os.getpid()}")
            n_cards = torch.cuda.device_count() if device != "cpu" and torch.cuda.is_available() else 0
            has_card_each = n_cards >= int(os.environ.get("LOCAL_WORLD_SIZE", 1))
            if n_cards:
                torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % n_cards)
            backend = "cpu:gloo,cuda:nccl" if has_card_each else "gloo"
            dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=limit)
        except (RuntimeError, ValueError, OSError) as error:
            raise RankLostError(
                f"the ranks did not find each other within {timeout:g} s ({_first_line(error)}). Start all of them, "
                "with the same address, or raise --timeout."
            ) from error
        return cls(store, rank, size, timeout=timeout, device="cuda" if has_card_each else "cpu")

    def leave(self) -> None:
        """End the group; a rank that still waits for another is not waited for."""
        if dist.is_initialized():
            dist.destroy_process_group()

    # ------------------------------------------------------------ what all ranks tell all

    def gather(self, values: FloatArray) -> FloatArray:
        """The values of every rank, as many on each, shape (size, …); every rank then knows the time."""
        flat = np.empty(_HEADER + values.size)
        self._pause()
        flat[:_HEADER] = time.monotonic(), self.wants_to_stop, self._busy
        flat[_HEADER:] = values.ravel()
        everything = np.empty((self.size, flat.size))
        with self.talking("a gather"):
            dist.all_gather(list(torch.from_numpy(everything)), torch.from_numpy(flat))
        self.now, self.is_stopping = float(everything[0, 0]), bool(everything[:, 1].any())
        self._count(everything[:, 2], flat.nbytes)
        return everything[:, _HEADER:].reshape(self.size, *values.shape)

    def total(self, values: FloatArray) -> FloatArray:
        """The sum over all ranks, in the order of the ranks: the same bits on each."""
        total = np.zeros(values.shape)
        for one in self.gather(values):
            total += one
        return total

    def barrier(self) -> None:
        """Return when every rank is here."""
        self.gather(np.zeros(0))

    def _count(self, busy: FloatArray, n_bytes: int) -> None:
        """Book the time since the last gather: the slowest rank's work, what others waited for it, and the rest."""
        now, seen = time.perf_counter(), self.timings
        elapsed, slowest = now - self._gathered_at, float(busy.max())
        seen.seconds += elapsed
        seen.wire += max(elapsed - slowest, 0.0)
        seen.waiting += slowest - float(busy[self.rank])
        seen.n_gathers += 1
        seen.n_bytes += n_bytes
        self._gathered_at = self._busy_since = now
        self._busy = 0.0

    def _pause(self) -> None:
        now = time.perf_counter()
        self._busy += now - self._busy_since
        self._busy_since = now

    # ------------------------------------------------------------ what neighbours tell each other

    def exchange(self, outgoing: Any, sent_ptr: IntArray, incoming: Any, ghost_ptr: IntArray) -> Pending:
        """Send each rank its rows of `outgoing`, and receive those of `incoming` from it; both are torch tensors."""
        operations = []
        for other in range(self.size):
            theirs = outgoing[sent_ptr[other] : sent_ptr[other + 1]]
            ours = incoming[ghost_ptr[other] : ghost_ptr[other + 1]]
            if len(theirs):
                operations.append(dist.P2POp(dist.isend, theirs, other))
                self.timings.n_bytes += theirs.numel() * theirs.element_size()
            if len(ours):
                operations.append(dist.P2POp(dist.irecv, ours, other))
        self.timings.n_exchanges += 1
        with self.talking("an exchange of rows"):
            return Pending(self, dist.batch_isend_irecv(operations) if operations else [])

    # ------------------------------------------------------------ what rank 0 collects and hands out

    def bring(self, array: Array) -> list[Array] | None:
        """The arrays of all ranks on rank 0, None elsewhere; they may differ in length, not in their other sides."""
        lengths = self.gather(np.array([len(array)], dtype=np.float64)).astype(np.int64).ravel()
        with self.talking("bringing arrays to rank 0"):
            if self.rank:
                if len(array):
                    dist.send(torch.from_numpy(np.require(array, requirements=["C", "W"])), 0)
                return None
            brought = [array]
            for other in range(1, self.size):
                room = np.empty((int(lengths[other]), *array.shape[1:]), array.dtype)
                if len(room):
                    dist.recv(torch.from_numpy(room), other)
                brought.append(room)
            return brought

    def hand_out(self, arrays: list[Array] | None, like: Array) -> Array:
        """Each rank's own array of those that rank 0 has; `like` has its shape and type."""
        mine = np.empty_like(like)
        with self.talking("what rank 0 hands out"):
            if self.rank:
                if mine.size:
                    dist.recv(torch.from_numpy(mine), 0)
                return mine
            assert arrays is not None  # on rank 0
            for other in range(1, self.size):
                if arrays[other].size:
                    dist.send(torch.from_numpy(np.require(arrays[other], requirements=["C", "W"])), other)
            mine[...] = arrays[0]
            return mine

    def announce(self, content: bytes | None) -> bytes:
        """What rank 0 says to all; others bring nothing."""
        size = int(self.gather(np.array([float(len(content or b""))]))[0, 0])
        room = np.frombuffer(content or bytes(size), np.uint8).copy()
        if size:
            with self.talking("what rank 0 says"):
                dist.broadcast(torch.from_numpy(room), 0)
        return room.tobytes()

    def on_rank_0(self, work: Callable[[], None]) -> None:
        """Have rank 0 do some work, for as long as it takes: the others wait while it shows that it is alive."""
        self._n_works += 1
        done, beat = f"done/{self._n_works}", f"beat/{self._n_works}"
        if self.rank == 0:
            is_over = threading.Event()
            pulse = threading.Thread(target=self._beat, args=(beat, is_over), name="tautcut-pulse", daemon=True)
            pulse.start()
            try:
                work()
            finally:
                is_over.set()
                pulse.join()
            self._store.set(done, "1")
        else:
            with self.talking("rank 0's work"):
                self._await(done, beat)

    def _beat(self, beat: str, is_over: threading.Event) -> None:
        number = 0
        while not is_over.wait(_PULSE):
            number += 1
            with suppress(RuntimeError):
                self._store.set(beat, str(number))

    def _await(self, done: str, beat: str) -> None:
        """Wait until it is done, as long as the beat goes on."""
        seen, heard_at = b"", time.monotonic()
        while not self._store.check([done]):
            now = self._store.get(beat) if self._store.check([beat]) else b""
            if now != seen:
                seen, heard_at = now, time.monotonic()
            if time.monotonic() - heard_at > self._timeout:
                raise RuntimeError("no sign of life")
            time.sleep(_LOOKS)

    def together(self, work: Callable[[], Answer]) -> Answer:
        """work() on every rank; where it fails on one of them, it fails on all, and the first that failed is named."""
        answer: Answer | None = None
        error: Exception | None = None
        try:
            answer = work()
        except (TautcutError, OSError, MemoryError) as failure:
            error = failure
        failed = np.flatnonzero(self.gather(np.array([float(error is not None)])).ravel())
        if error is not None:
            raise error
        if failed.size:
            raise PeerFailedError(f"rank {failed[0]} could not go on, and says why.")
        return cast(Answer, answer)

    # ------------------------------------------------------------ who does not answer

    @contextmanager
    def talking(self, what: str) -> Iterator[None]:
        """In here this rank waits for others; that one does not answer becomes an error which names it."""
        self._pause()
        try:
            yield
        except RuntimeError as error:
            raise RankLostError(self._missing(what, error)) from error
        finally:
            self._busy_since = time.perf_counter()

    def _missing(self, what: str, error: RuntimeError) -> str:
        """The sentence about the ranks that do not answer a roll call."""
        asked = f"({what}: {_first_line(error)})"
        remedy = "The same command with --resume goes on from the last checkpoint."
        try:
            self._store.set(f"alive/{self.rank}", "1")
            limit = time.monotonic() + _ROLL_CALL
            missing = list(range(self.size))
            while missing and time.monotonic() < limit:
                missing = [one for one in missing if not self._store.check([f"alive/{one}"])]
                time.sleep(_LOOKS)
            named = [f"rank {one} ({self._store.get(f'host/{one}').decode()})" for one in missing]
        except RuntimeError:  # the store went with the rank that keeps it
            return f"rank 0, which keeps the addresses, does not answer {asked}. {remedy}"
        if not named:
            return f"the ranks lost each other, though all are there {asked}. {remedy}"
        do = "does" if len(named) == 1 else "do"
        return f"{', '.join(named)} {do} not answer within {self._timeout:g} s {asked}. {remedy}"


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
