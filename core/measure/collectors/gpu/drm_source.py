"""The source of all GPUs of the kernel's DRM beside NVIDIA's: each as a device, and what jobs use of them."""

from __future__ import annotations

import time

from jobtop.core.measure.collectors.gpu.amd import AmdReader
from jobtop.core.measure.collectors.gpu.drm_cards import INTEL, VENDORS, CardNames, find_cards
from jobtop.core.measure.collectors.gpu.drm_fdinfo import DrmProcesses, Use
from jobtop.core.measure.collectors.gpu.incidents import GpuIncidents
from jobtop.core.measure.collectors.gpu.kfd import compute_processes
from jobtop.core.measure.collectors.gpu.new_users import NewUsers
from jobtop.core.measure.collectors.gpu.other_card import OtherReader
from jobtop.core.measure.collectors.gpu.shares import GpuProcesses, GpuShares
from jobtop.core.measure.collectors.machine_pids import MachinePids
from jobtop.core.measure.collectors.process_source import ProcessSource
from jobtop.core.measure.device import Device
from jobtop.core.measure.source import Readings, Remarks
from jobtop.core.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Protocol

    from jobtop.core.measure.collectors.gpu.drm_cards import Card
    from jobtop.core.measure.collectors.gpu.drm_fdinfo import Process
    from jobtop.core.measure.collectors.gpu.sysfs import SysFiles
    from jobtop.core.measure.source import DeviceReading, Event, Jobs, Number
    from jobtop.core.measure.sources import Options

    Members = Iterator[tuple[str, int, int, int | None]]  # job, start and pid of a process, and its CPU time
    Uses = dict[str, dict[int, Use]]  # by address of the GPU, and by pid

    class CardReader(Protocol):
        """Reads the numbers of one card; `energy_method` says where its energy comes from.

        `slowdowns`: why its clocks were lower in the last reading; None is not known.
        """

        card: Card
        files: SysFiles

        @property
        def energy_method(self) -> str: ...
        @property
        def is_integrated(self) -> bool: ...
        @property
        def slowdowns(self) -> tuple[str, ...] | None: ...
        def read(self, now: float) -> dict[str, Number | None]: ...
        def close(self) -> None: ...


LIST_SECONDS = 10.0  # between two lists of the cards: they are plugged in, and drivers are loaded again
MISSED_ENERGY = "energy_gpu: without some seconds in which a GPU, or what the job did on it, could not be read"
NO_JOB = 0  # stands for the pids of all processes that belong to no job


class Cards:
    """The cards that exist now, each with its reader; one that comes back is read anew."""

    def __init__(self, sys: str, proc: str, without: frozenset[str]) -> None:
        self._sys, self._proc, self._without = sys, proc, without
        self._names = CardNames()
        self._readers: dict[str, CardReader] = {}  # by address
        self._list_at = -float("inf")

    def readers(self, now: float) -> list[CardReader]:
        if now >= self._list_at:
            self._list_at = now + LIST_SECONDS
            self._list()
        return list(self._readers.values())

    def name(self, card: Card) -> str:
        return self._names.name(card)

    def knows(self, address: str) -> bool:
        return address in self._readers

    def gone(self) -> dict[str, str]:
        """The names of cards that were there once, by address."""
        return {address: name for address, name in self._names.items() if address not in self._readers}

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers = {}

    def _list(self) -> None:
        cards = find_cards(self._sys, self._without)
        before, self._readers = self._readers, {}
        several = sum(card.kind == VENDORS[INTEL] for card in cards) > 1
        for card in cards:
            known = before.get(card.address)
            if known is not None and known.card == card:
                self._readers[card.address] = before.pop(card.address)
            else:
                self._readers[card.address] = self._reader(card, several)
        for reader in before.values():
            reader.close()

    def _reader(self, card: Card, has_several_intel: bool) -> CardReader:
        if card.driver == "amdgpu":
            return AmdReader(card)
        if card.driver not in ("i915", "xe"):
            return OtherReader(card)
        from jobtop.core.measure.collectors.gpu.intel import IntelReader
        from jobtop.core.measure.collectors.gpu.intel_program import program_problem

        program = program_problem(self._proc)[0] if card.driver == "i915" else None
        if program is None:
            return IntelReader(card)
        from jobtop.core.measure.collectors.gpu.intel_gpu_top import IntelGpuTop

        return IntelReader(card, IntelGpuTop(program, card.nodes[0] if has_several_intel else None))


class DrmSource:
    """Reads all cards by their files, and the processes of jobs by what their descriptors say."""

    name = "drm"
    interval_seconds = 1.0

    def __init__(
        self,
        options: Options,
        processes: ProcessSource | None,
        monotonic: Callable[[], float] = time.monotonic,
        list_members: Callable[[Jobs], Members] | None = None,
    ) -> None:
        self._sys, self._jobs_of, self._monotonic = options.sys, processes, monotonic
        self._list_members = list_members or self._members_of_jobs
        self._cards = Cards(options.sys, options.proc, options.without)
        self._processes = DrmProcesses(options.proc)
        self._machine_pids = MachinePids(options.proc)
        self._knows_pids = self._machine_pids.problem() is None
        self._new_users = NewUsers(options.sys, processes if list_members is None else None)
        self._has_users = self._is_unknown = False  # as the last look has found; or it was not complete
        self._shares = GpuShares()
        self._incidents = GpuIncidents()
        self._known_products: dict[str, str | None] = {}
        self._joules: dict[str, float] = {}  # by address, of the collection before
        self._with_load: set[str] = set()  # the cards that have told how busy they are
        self._with_energy: set[str] = set()  # cards that have told their energy
        self._methods: dict[str, set[str]] = {}  # of the energy of each job

    def available(self) -> str | None:
        """None: it is opened only where there is a card."""
        return None

    def collect(self, jobs: Jobs) -> Readings:
        """All cards now, and every job that has been seen on one."""
        now = self._monotonic()
        readers = self._cards.readers(now)
        awake = [reader for reader in readers if not reader.card.is_asleep]
        addresses = {node: reader.card.address for reader in readers for node in reader.card.nodes}
        computing = compute_processes(self._sys, addresses)
        uses: Uses = {}
        owners: dict[int, set[str]] = {}
        may_be_new = self._new_users.possible((reader.card.driver for reader in readers), jobs, now)
        if may_be_new or computing or self._has_users:
            candidates, owners = self._candidates(jobs)
            integrated = frozenset(reader.card.address for reader in awake if reader.is_integrated)
            uses = self._processes.read(candidates, addresses, integrated, now)
            has_more = self._new_users.are_likely and not self._processes.is_complete
            self._has_users, self._is_unknown = self._processes.has_open or has_more, self._processes.has_unread
        joules_before, self._joules = self._joules, {}
        devices: list[DeviceReading] = []
        read: list[GpuProcesses] = []
        for reader in readers:
            address, device = reader.card.address, Device("gpu", self._cards.name(reader.card))
            if reader not in awake:
                devices.append((device, {"gpu.util": None}))
                continue
            values = reader.read(now)
            on_card = uses.get(address, {}), self._local(computing.get(address, {}))
            processes = self._processes_on(reader, values, *on_card, joules_before.get(address))
            values["gpu.processes"] = None if self._is_unknown else len(processes.pids - {NO_JOB})
            devices.append((device, values))
            read.append(processes)
            self._note_methods(reader, processes, owners)
        values_of_jobs = self._shares.add(read, owners, self._cards.knows)
        products = self._products(awake)
        begun = self._shares.take_events({device.name: product for device, product in products.items()})
        happened = self._happened(readers, awake, now)
        return Readings(
            jobs=values_of_jobs,
            devices=devices,
            remarks=self._remarks(values_of_jobs),
            named=self._shares.named,
            events=[*begun, *happened],
            products=products,
        )

    def forget(self, key: str) -> None:
        self._shares.forget(key)
        self._incidents.forget(key)
        self._methods.pop(key, None)

    def close(self) -> None:
        self._cards.close()

    def _candidates(self, jobs: Jobs) -> tuple[dict[Process, int | None], dict[int, set[str]]]:
        """The processes of jobs, and the jobs of each."""
        found: dict[Process, int | None] = {}
        owners: dict[int, set[str]] = {}
        for key, start, pid, cpu_ns in self._list_members(jobs):
            found[start, pid] = cpu_ns
            owners.setdefault(pid, set()).add(key)
        return found, owners

    def _members_of_jobs(self, jobs: Jobs) -> Members:
        listed = [] if self._jobs_of is None else list(self._jobs_of.jobs.items())
        for key, job in listed:
            if key in jobs:
                for pid, member in list(job.tree.members.items()):
                    yield key, member.start, pid, member.cpu_ns

    def _processes_on(
        self,
        reader: CardReader,
        values: Mapping[str, Number | None],
        uses: Mapping[int, Use],
        computing: Mapping[int, int],
        before: float | None,
    ) -> GpuProcesses:
        """The processes of one card; what the card does beyond that is done for processes of no job."""
        address, busy, joules = reader.card.address, values.get("gpu.util"), values.get("energy.gpu")
        memory: dict[int, int | None] = {pid: use.memory_bytes for pid, use in uses.items()}
        percents: dict[int, float | None] = {pid: use.percent for pid, use in uses.items()}
        for pid, held in computing.items():
            memory[pid] = max(held, memory.get(pid) or 0)
            # The time of compute queues is counted for the whole card only.
            others = sum(percent or 0 for other, percent in percents.items() if other != pid)
            alone = len(computing) == 1 and busy is not None
            percents[pid] = max(0.0, float(busy or 0) - others) if alone else None
        if computing and not self._knows_pids:  # any of these processes may be one of those that compute
            percents = dict.fromkeys(percents)
        known = sum(percent or 0 for percent in percents.values())
        if busy is not None and busy > known:
            percents[NO_JOB] = busy - known
        if joules is not None:
            self._joules[address] = joules
            self._with_energy.add(address)
        if busy is not None:
            self._with_load.add(address)
        is_counted = all(use.is_counted for use in uses.values())
        can_divide = (
            is_counted
            and (len(computing) <= 1 if self._knows_pids else not computing)
            and (before is None or address in self._with_load)
        )
        used = None if None in (joules, before, busy) else max(0.0, (joules or 0) - (before or 0))
        divisible = address in self._with_energy and can_divide
        return GpuProcesses(address, memory, percents, used, divisible, self._cards.name(reader.card))

    def _local(self, computing: Mapping[int, int]) -> dict[int, int]:
        """The same with pids of here; a process that is not seen here has a negative one."""
        return {self._machine_pids.local(pid) or -pid: held for pid, held in computing.items()}

    def _happened(self, readers: list[CardReader], awake: list[CardReader], now: float) -> list[Event]:
        """Which cards are slowed down, gone, or here again, since the last collection."""
        for reader in readers:
            address = reader.card.address
            slowdowns = reader.slowdowns if reader in awake else None
            self._incidents.see(address, self._cards.name(reader.card), slowdowns, self._shares.jobs_on(address), now)
        for address, name in self._cards.gone().items():
            self._incidents.lose(address, name, "the card or its driver is gone", self._shares.jobs_on(address))
        return self._incidents.take()

    def _products(self, awake: list[CardReader]) -> dict[Device, str]:
        """The product names of cards; only some cards of AMD have one."""
        for reader in awake:
            name = self._cards.name(reader.card)
            if name not in self._known_products:
                self._known_products[name] = reader.files.text(f"{reader.card.device}/product_name")
        return {Device("gpu", name): text for name, text in self._known_products.items() if text is not None}

    def _note_methods(self, reader: CardReader, processes: GpuProcesses, owners: Mapping[int, set[str]]) -> None:
        if processes.counts_energy:
            for key in {key for pid in processes.pids for key in owners.get(pid, ())}:
                self._methods.setdefault(key, set()).add(reader.energy_method)

    def _remarks(self, values: Mapping[str, Mapping[str, Number]]) -> dict[str, Remarks]:
        """Where the energy of jobs comes from, and what is missing of cards that were lost."""
        found = self._incidents.remarks()
        for key, of_job in values.items():
            if "energy.gpu" in of_job and key in self._methods:
                sources = {"energy_gpu": "; ".join(sorted(self._methods[key]))}
                said = found.get(key, Remarks())
                missed = (MISSED_ENERGY,) if self._shares.has_missed_energy(key) else ()
                found[key] = replace(said, sources=sources, incomplete=said.incomplete + missed)
        return found


def open_source(options: Options) -> DrmSource:
    opened = options.opened.get("processes")
    return DrmSource(options, opened if isinstance(opened, ProcessSource) else None)
